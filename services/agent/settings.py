"""The environment of the agent service: which providers are configured, how long runs may take."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from libs.contracts.agent.summaries import (
    PER_HOUR,
    PER_HOUR_MAX,
    PER_MINUTE,
    PER_MINUTE_MAX,
    SummaryLimits,
)
from libs.contracts.environment_parsing import address, header_text, seconds, whole_number
from libs.egress.provider_endpoints import OPENAI_BASE, Endpoint, endpoint, ollama_endpoint

ANTHROPIC_BASE = "https://api.anthropic.com"
RUN_SECONDS_MAX = 1_800.0
STEP_SECONDS_MAX = 600.0
TOOL_SECONDS_MAX = 120.0
APPROVAL_SECONDS_MAX = 7 * 86_400.0
OPENAI_HEADERS = {
    "OPENAI_ORG_ID": "OpenAI-Organization",
    "OPENAI_PROJECT_ID": "OpenAI-Project",
}


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """The providers; None where one is not configured."""

    openai: Endpoint | None
    anthropic: Endpoint | None
    ollama: Endpoint | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> ProviderSettings:
        """OPENAI_API_KEY, and OPENAI_API_BASE or OPENAI_BASE_URL; ANTHROPIC_API_KEY and
        ANTHROPIC_BASE_URL; OLLAMA_BASE_URL, whose models embed; OPENAI_ORG_ID and
        OPENAI_PROJECT_ID for keys that belong to several. A base without a key is a local server
        that wants none. A base may have a login
        (`https://user:password@host/v1`), which goes before the key where both want the same
        header, and a query (`?api_key=...`). Raises WrongSetting."""
        openai_base, openai_url, anthropic_base, ollama = (
            address(environment, name, ("https", "http"))
            for name in (
                *("OPENAI_API_BASE", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"),
                "OLLAMA_BASE_URL",
            )
        )
        return cls(
            openai=endpoint(
                header_text(environment, "OPENAI_API_KEY"),
                openai_base or openai_url,
                OPENAI_BASE,
                {
                    header: value
                    for name, header in OPENAI_HEADERS.items()
                    if (value := header_text(environment, name))
                },
            ),
            anthropic=endpoint(
                header_text(environment, "ANTHROPIC_API_KEY"),
                anthropic_base,
                ANTHROPIC_BASE,
                suffix="/v1",
            ),
            ollama=ollama_endpoint(ollama),
        )


@dataclass(frozen=True, slots=True)
class Deadlines:
    """The time limits of a run, of a model's answer in it, and of a tool call; and how long calls
    wait for a client."""

    run_seconds_max: float = RUN_SECONDS_MAX
    step_seconds_max: float = STEP_SECONDS_MAX
    tool_seconds_max: float = TOOL_SECONDS_MAX
    approval_seconds_max: float = APPROVAL_SECONDS_MAX

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Deadlines:
        """HEELER_RUN_SECONDS_MAX: how long a run may take from its start, without its time in
        line; HEELER_STEP_SECONDS_MAX, HEELER_TOOL_SECONDS_MAX, HEELER_APPROVAL_SECONDS_MAX. Raises
        WrongSetting."""
        return cls(
            seconds(environment, "HEELER_RUN_SECONDS_MAX", RUN_SECONDS_MAX),
            seconds(environment, "HEELER_STEP_SECONDS_MAX", STEP_SECONDS_MAX),
            seconds(environment, "HEELER_TOOL_SECONDS_MAX", TOOL_SECONDS_MAX),
            seconds(environment, "HEELER_APPROVAL_SECONDS_MAX", APPROVAL_SECONDS_MAX),
        )


def summary_limits(environment: Mapping[str, str] = os.environ) -> SummaryLimits:
    """HEELER_SUMMARIES_PER_MINUTE and HEELER_SUMMARIES_PER_HOUR: how many summaries each agent may
    have. Raises WrongSetting."""
    return SummaryLimits(
        per_minute=whole_number(
            environment, "HEELER_SUMMARIES_PER_MINUTE", PER_MINUTE, most=PER_MINUTE_MAX
        ),
        per_hour=whole_number(
            environment, "HEELER_SUMMARIES_PER_HOUR", PER_HOUR, most=PER_HOUR_MAX
        ),
    )
