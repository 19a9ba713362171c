"""Where a provider of models is, as the environment says it, with what nobody may read of it."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

OPENAI_BASE = "https://api.openai.com/v1"
KEY_FOR_KEYLESS = "none"
# What is shorter would be found in words that are no secrets.
SECRET_CHARS_MIN = 6
NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a provider, or of its stand-in. `base_url` is what others may see: who logs in
    by it is in the headers, and what it asks by is in `query`, which goes with each call. `secrets`
    are the texts that may stand in no message."""

    api_key: str = field(repr=False)
    base_url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    query: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)


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


def ollama_endpoint(address: str) -> Endpoint | None:
    """Where an Ollama speaks as OpenAI does, from its address, like http://localhost:11434."""
    base = address.rstrip("/")
    return endpoint(None, base if not base or base.endswith("/v1") else f"{base}/v1", "")


def login_of(address: SplitResult) -> Mapping[str, str]:
    """The header that says what stands before the host of an address."""
    if address.username is None:
        return NOTHING
    words = f"{unquote(address.username)}:{unquote(address.password or '')}"
    return {"Authorization": f"Basic {b64encode(words.encode()).decode()}"}


def secrets_of(
    api_key: str | None, address: SplitResult, login: Mapping[str, str], query: Mapping[str, str]
) -> tuple[str, ...]:
    """The secrets of an endpoint, as it is and as it stands in the address."""
    words = [word.partition(" ")[2] for word in login.values()]
    words += [api_key or "", address.password or "", unquote(address.password or "")]
    words += [*query.values(), *(pair.partition("=")[2] for pair in address.query.split("&"))]
    if address.password is None:
        words += [address.username or "", unquote(address.username or "")]
    return tuple(sorted({word for word in words if len(word) >= SECRET_CHARS_MIN}, key=len))[::-1]
