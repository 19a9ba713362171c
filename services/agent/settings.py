"""The environment of the agent service: which providers are configured."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

ANTHROPIC_BASE = "https://api.anthropic.com"
OPENAI_BASE = "https://api.openai.com/v1"
KEY_FOR_KEYLESS = "none"
OPENAI_HEADERS = {
    "OPENAI_ORG_ID": "OpenAI-Organization",
    "OPENAI_PROJECT_ID": "OpenAI-Project",
}
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How to reach a provider, or what stands in for it."""

    api_key: str
    base_url: str
    headers: Mapping[str, str] = NO_HEADERS


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """The providers; None where one is not configured."""

    openai: Endpoint | None
    anthropic: Endpoint | None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> ProviderSettings:
        """OPENAI_API_KEY, and OPENAI_API_BASE or OPENAI_BASE_URL; ANTHROPIC_API_KEY and
        ANTHROPIC_BASE_URL; OPENAI_ORG_ID and OPENAI_PROJECT_ID for keys that belong to several. A
        base without a key is a local server that wants none."""
        openai_base = environment.get("OPENAI_API_BASE") or environment.get("OPENAI_BASE_URL")
        anthropic_base = environment.get("ANTHROPIC_BASE_URL", "").rstrip("/").removesuffix("/v1")
        return cls(
            openai=endpoint(
                environment.get("OPENAI_API_KEY"),
                openai_base,
                OPENAI_BASE,
                {
                    header: environment[name]
                    for name, header in OPENAI_HEADERS.items()
                    if environment.get(name)
                },
            ),
            anthropic=endpoint(
                environment.get("ANTHROPIC_API_KEY"), anthropic_base, ANTHROPIC_BASE
            ),
        )


def endpoint(
    api_key: str | None, base_url: str | None, usual: str, headers: Mapping[str, str] = NO_HEADERS
) -> Endpoint | None:
    """Where a provider is, if one of the two is given."""
    if not api_key and not base_url:
        return None
    return Endpoint(api_key or KEY_FOR_KEYLESS, (base_url or usual).rstrip("/"), headers)
