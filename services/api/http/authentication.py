"""Access: with a password, clients that send it; without one, only clients on this machine.

A page in a browser on this machine can be made to send requests here by any web site (DNS
rebinding), so without a password the Host must be local, and the Origin too, or one that the
operator allows. A request that a proxy forwards is not from this machine, whatever its Host says.
"""

from __future__ import annotations

import hmac
import math
from collections.abc import Collection
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from litestar.config.cors import CORSConfig
from litestar.connection import ASGIConnection

from libs.contracts.bus_messages import JsonObject
from libs.contracts.listening_address import HOSTS_KNOWN_MAX, is_loopback
from services.api.http.error_responses import Problem
from services.api.http.password_attempt_limits import PasswordAttemptLimits, Proof
from services.api.settings import ANY_ORIGIN, LOCAL_ORIGINS

OAUTH_CALLBACK = "/v1/tools/mcp/oauth/callback"  # browsers come there, who have no password
START_PAGE = ""  # the path "/", as it is compared: without the slash at its end
HEALTH_PATHS = ["/v1/health", "/health", "/latest/health", "/v1/ready", "/readyz"]
OPEN_PATHS = frozenset((*HEALTH_PATHS, "/livez", START_PAGE))
CHALLENGE = 'Bearer realm="Heeler"'
FORWARDED = ("Forwarded", "X-Forwarded-For")  # a proxy names there who sent a request
UNAUTHORIZED: JsonObject = {"detail": "Unauthorized"}

AnyRequestLike = ASGIConnection[Any, Any, Any, Any]

# A browser takes each of these names for this machine, whatever a name server says.
LOCAL_ORIGIN = r"https?://(localhost|[a-z\d.-]+\.localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?"
# The headers of answers that clients read, besides those that every page may read.
EXPOSED = [
    *("retry-after", "www-authenticate"),
    *("x-should-retry", "x-run-id", "x-upload-result"),
]


def check(connection: AnyRequestLike) -> None:
    """Check that a client has access. Raises the Problem that says why it has none."""
    host = host_of(connection)
    if connection.scope["path"].rstrip("/") in OPEN_PATHS:
        return
    password: str | None = connection.app.state.password
    if password is None:
        check_local(connection, host)
    elif connection.scope["path"].rstrip("/") != OAUTH_CALLBACK:
        check_password(connection, password)


def check_password(connection: AnyRequestLike, password: str) -> None:
    """Check the password. An address that guesses too often gets a 429, right or wrong."""
    limits: PasswordAttemptLimits = connection.app.state.password_limits
    now = connection.app.state.clock.monotonic()
    client = connection.scope["client"]
    address = client[0] if client else ""
    proof = connection.scope["state"].get("proof") or Proof()
    seconds = limits.wait_seconds(address, now)
    given = passwords(connection)
    if any(given) and seconds and not proof.given:
        detail = f"Too many wrong passwords came from {address or 'there'}: wait {seconds:.0f} s"
        raise Problem(429, {"detail": detail}, {"Retry-After": str(math.ceil(seconds))})
    proof.given = any(same(secret, password) for secret in given)
    if proof.given:
        return
    if any(given):
        limits.guessed_wrong(address, now)
    raise Problem(401, UNAUTHORIZED, {"WWW-Authenticate": CHALLENGE})


def passwords(connection: AnyRequestLike) -> list[str]:
    """The passwords that a request brings, in either of V1's headers."""
    bearer = connection.headers.get("authorization", "")
    bare = connection.headers.get("x-bare-password", "")
    return [
        bearer.removeprefix("Bearer ") if bearer.startswith("Bearer ") else "",
        bare.removeprefix("password ") if bare.startswith("password ") else "",
    ]


def same(given: str, password: str) -> bool:
    """Whether a text is the password, in constant time. Headers arrive decoded as Latin-1."""
    return hmac.compare_digest(given.encode("latin-1", "replace"), password.encode())


def check_local(connection: AnyRequestLike, host: str) -> None:
    """Check that a request to a server without a password names this machine, and no proxy."""
    origin = connection.headers.get("origin")
    for header in FORWARDED:
        if header in connection.headers:
            raise not_local(header, connection.headers[header], "come without a proxy")
    if not is_loopback(host):
        raise not_local("Host", host, "use 127.0.0.1")
    if origin and not may_call(connection, origin):
        raise not_local("Origin", origin, "name it in HEELER_CORS_ORIGINS")


def may_call(connection: AnyRequestLike, origin: str) -> bool:
    """Whether a page of this origin is on this machine, or one that the operator allows."""
    cors = connection.app.cors_config
    is_allowed = cors is not None and cors.is_origin_allowed(origin)
    return is_allowed or is_loopback(host_name(origin.partition("//")[2]) or "")


def not_local(header: str, value: str, otherwise: str) -> Problem:
    """The answer to a request that does not come from this machine."""
    detail = (
        f"The {header} '{value}' is not this machine, and the server has no password: set "
        f"HEELER_PASSWORD to let others in, or {otherwise}"
    )
    return Problem(403, {"detail": detail})


def host_of(connection: AnyRequestLike) -> str:
    """The name by which a client reached this server; `localhost` without a Host. Raises the 400
    for a malformed or repeated Host, so later code may rely on it."""
    hosts = connection.headers.getall("host", [])
    name = host_name(hosts[0]) if hosts else "localhost"
    if name is None or len(hosts) > 1:
        raise Problem(
            400, {"detail": "The header Host must come once, and be a name or an address"}
        )
    return name


@lru_cache(maxsize=HOSTS_KNOWN_MAX)
def host_name(authority: str) -> str | None:
    """The host of `host:port`; None if it is malformed."""
    try:
        parts = urlsplit(f"//{authority}")
        _ = parts.port  # raises what is no number
    except ValueError:
        return None
    return parts.hostname or ""


def cors_config(origins: Collection[str]) -> CORSConfig:
    """CORS for these origins; the word `local` stands for every origin on this machine, `*` for
    all. No cookie lets anybody in, so pages may send credentials without a risk."""
    return CORSConfig(
        allow_origins=[origin for origin in origins if origin != LOCAL_ORIGINS],
        allow_origin_regex=LOCAL_ORIGIN if LOCAL_ORIGINS in origins else None,
        allow_credentials=ANY_ORIGIN not in origins,
        expose_headers=EXPOSED,
    )
