"""Who may come in: whoever has the password; without one, only what is on this machine.

A page in a browser on this machine can be made to send requests here by any web site (DNS
rebinding), so without a password the Host and the Origin must be local.
"""

from __future__ import annotations

import hmac
from typing import Any
from urllib.parse import urlsplit

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from libs.contracts.message import JsonObject
from services.api.http.health import HEALTH_PATHS
from services.api.http.problems import Problem
from services.api.settings import is_loopback

OPEN_PATHS = frozenset((*HEALTH_PATHS, "/livez"))
UNAUTHORIZED: JsonObject = {"detail": "Unauthorized"}

AnyConnection = ASGIConnection[BaseRouteHandler, object, object, object]  # type: ignore[type-var]


async def guard(connection: AnyConnection, _: BaseRouteHandler) -> None:
    """Let a request in, or raise the answer why not."""
    check(connection)


def check(connection: ASGIConnection[Any, Any, Any, Any]) -> None:
    """The same, for what has no handler."""
    if connection.scope["path"].rstrip("/") in OPEN_PATHS:
        return
    password: str | None = connection.app.state.password
    if password is None:
        check_local(connection)
    elif not any(same(given, password) for given in passwords(connection)):
        raise Problem(401, UNAUTHORIZED)


def passwords(connection: ASGIConnection[Any, Any, Any, Any]) -> list[str]:
    """The passwords that a request brings, in either of V1's headers."""
    bearer = connection.headers.get("authorization", "")
    bare = connection.headers.get("x-bare-password", "")
    return [
        bearer.removeprefix("Bearer ") if bearer.startswith("Bearer ") else "",
        bare.removeprefix("password ") if bare.startswith("password ") else "",
    ]


def same(given: str, password: str) -> bool:
    """Compare in constant time. Headers come as Latin-1, whatever the client meant."""
    return hmac.compare_digest(given.encode("latin-1", "replace"), password.encode())


def check_local(connection: ASGIConnection[Any, Any, Any, Any]) -> None:
    """Only local names may be used to reach a server without a password."""
    host = urlsplit(f"//{connection.headers.get('host', 'localhost')}").hostname or ""
    origin = connection.headers.get("origin")
    origin_host = urlsplit(origin).hostname or "" if origin else host
    for name, value in (("Host", host), ("Origin", origin_host)):
        if not is_loopback(value):
            detail = (
                f"The {name} '{value}' is not this machine, and the server has no password: set "
                "HEELER_PASSWORD to let others in, or use 127.0.0.1"
            )
            raise Problem(403, {"detail": detail})
