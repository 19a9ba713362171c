"""The language of the tools service about people who let it use an MCP server (OAuth): who asked,
what came back, and what it was given, sealed."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from libs.contracts.bus_messages import Command, Event
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.sealed_text import Sealed

SERVICE = "tools"
KIND = "mcp-oauth"  # the prefix of the ids

# How long a person may take.
AUTHORIZATION_SECONDS_MAX = 300.0


def authorization_id(org: str, state: str) -> str:
    """The id of what a person is asked; who does not know the state cannot answer for them."""
    return derived_id(KIND, org, state)


class AnswerMcpAuthorization(Command, service=SERVICE, topic="mcp_authorization.answer"):
    """Answer an OAuth request with what the person's browser brought back: a sealed code, or an
    error."""

    authorization_id: str
    code: Sealed | Literal[""] = ""
    issuer: str = ""
    error: str = ""

    @property
    def target(self) -> str:
        return self.authorization_id


class McpAuthorizationRequested(Event, service=SERVICE, topic="mcp_authorization.requested"):
    """A person was asked to let an MCP server be used; an answer after `expires_at` is refused."""

    server_id: str
    expires_at: datetime


class McpAuthorizationAnswered(Event, service=SERVICE, topic="mcp_authorization.answered"):
    """A person's browser came back, once: with a code, which is sealed, or with an error."""

    code: Sealed | Literal[""] = ""
    issuer: str = ""
    error: str = ""


class McpServerAuthorized(Event, service=SERVICE, topic="mcp_server.authorized"):
    """An MCP server may be used with this grant (tokens and the client they are for), sealed; one
    that was only `renewed` leaves sessions and tools as they are."""

    grant: Sealed
    version: int
    number: int
    renewed: bool = False
