"""The environment of the agent service: which providers are configured, how long runs may take."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from libs.contracts.environment import address, header_text, seconds

ANTHROPIC_BASE = "https://api.anthropic.com"
OPENAI_BASE = "https://api.openai.com/v1"
RUN_SECONDS_MAX = 1_800.0
STEP_SECONDS_MAX = 600.0
TOOL_SECONDS_MAX = 120.0
APPROVAL_SECONDS_MAX = 7 * 86_400.0
KEY_FOR_KEYLESS = "none"
# What is shorter would be found in words that are no secrets.
SECRET_CHARS_MIN = 6
OPENAI_HEADERS = {
    "OPENAI_ORG_ID": "OpenAI-Organization",
    "OPENAI_PROJECT_ID": "OpenAI-Project",
}
NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How to reach a provider, or what stands in for it. `base_url` is what others may see: who
    logs in by it is in the headers, and what it asks by is in `query`, which goes with each call.
    `secrets` are the texts that may stand in no message."""

    api_key: str = field(repr=False)
    base_url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    query: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """The providers; None where one is not configured."""

    openai: Endpoint | None
    anthropic: Endpoint | None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> ProviderSettings:
        """OPENAI_API_KEY, and OPENAI_API_BASE or OPENAI_BASE_URL; ANTHROPIC_API_KEY and
        ANTHROPIC_BASE_URL; OPENAI_ORG_ID and OPENAI_PROJECT_ID for keys that belong to several. A
        base without a key is a local server that wants none. A base may have a login
        (`https://user:password@host/v1`), which goes before the key where both want the same
        header, and a query (`?api_key=...`). Raises WrongSetting."""
        openai_base, openai_url, anthropic_base = (
            address(environment, name, ("https", "http"))
            for name in ("OPENAI_API_BASE", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL")
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
        )


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long a run, one answer of a model in it, and one tool call may take; and how long calls
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


def endpoint(
    api_key: str | None,
    base_url: str | None,
    usual: str,
    headers: Mapping[str, str] = NOTHING,
    *,
    suffix: str = "",
) -> Endpoint | None:
    """Where a provider is, if one of the two is given. `suffix` is what the base may end with, but
    need not."""
    if not api_key and not base_url:
        return None
    address = urlsplit(base_url or usual)
    login = login_of(address)
    query = dict(parse_qsl(address.query))
    host = address.netloc.rpartition("@")[2]
    clean = address._replace(netloc=host, query="", fragment="").geturl()
    return Endpoint(
        api_key or KEY_FOR_KEYLESS,
        clean.rstrip("/").removesuffix(suffix),
        {**headers, **login},
        query,
        secrets_of(api_key, address, login, query),
    )


def login_of(address: SplitResult) -> Mapping[str, str]:
    """The header that says what stands before the host of an address."""
    if address.username is None:
        return NOTHING
    words = f"{unquote(address.username)}:{unquote(address.password or '')}"
    return {"Authorization": f"Basic {b64encode(words.encode()).decode()}"}


def secrets_of(
    api_key: str | None, address: SplitResult, login: Mapping[str, str], query: Mapping[str, str]
) -> tuple[str, ...]:
    """Whatever of an endpoint nobody may read, as it is and as it stands in the address."""
    words = [word.partition(" ")[2] for word in login.values()]
    words += [api_key or "", address.password or "", unquote(address.password or "")]
    words += [*query.values(), *(pair.partition("=")[2] for pair in address.query.split("&"))]
    if address.password is None:
        words += [address.username or "", unquote(address.username or "")]
    return tuple(sorted({word for word in words if len(word) >= SECRET_CHARS_MIN}, key=len))[::-1]
