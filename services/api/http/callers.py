"""Sender of a request and its organisation. All that a request reads or writes belongs to its
caller's organisation, and nothing else in the api names one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from litestar.connection import ASGIConnection

from libs.contracts.bus_messages import DEFAULT_ORG, DEFAULT_USER

AnyConnection = ASGIConnection[Any, Any, Any, Any]

CALLER = "caller"  # its name in the state of a request


@dataclass(frozen=True, slots=True)
class Caller:
    """The user, or the key, that a request is sent by, and the organisation of both."""

    org: str
    user: str


class Authenticator(Protocol):
    """Knows callers by what their requests bring."""

    async def authenticate(self, connection: AnyConnection) -> Caller:
        """The caller that sent a request. Raises the Problem that an unknown caller is told."""


class SingleOrganisation:
    """Authenticates every request as the default user of the default organisation, as long as
    there are no others."""

    async def authenticate(self, connection: AnyConnection) -> Caller:
        """The same caller for every request."""
        return THE_ONLY_CALLER


THE_ONLY_CALLER = Caller(DEFAULT_ORG, DEFAULT_USER)


def caller_of(request: AnyConnection) -> Caller:
    """The caller of an admitted request."""
    caller: Caller = request.scope["state"][CALLER]
    return caller


def is_operator(request: AnyConnection) -> bool:
    """Whether a request is sent for the organisation that is there from the start: that of whoever
    runs the server."""
    return org_of(request) == DEFAULT_ORG


def org_of(request: AnyConnection) -> str:
    """The organisation of the caller of an admitted request."""
    return caller_of(request).org
