"""Question to a person whether an MCP server may be used: once, and not for ever."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel

from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import CONFLICT, INVALID, NOT_FOUND, Event, Rejected
from libs.contracts.tools.mcp_authorizations import (
    AnswerMcpAuthorization,
    McpAuthorizationAnswered,
    McpAuthorizationRequested,
)


class McpAuthorizationState(BaseModel):
    """The question, and the person's answer; the code is sealed."""

    server_id: str = ""
    expires_at: datetime | None = None
    answered: bool = False
    code: str = ""
    issuer: str = ""
    error: str = ""


class McpAuthorization(Aggregate[McpAuthorizationState]):
    """One question to a person."""

    State = McpAuthorizationState

    @property
    def deleted(self) -> bool:
        """Whether nothing will happen to it any more."""
        return self.state.answered

    def request(self, server_id: str, *, expires_at: datetime, at: datetime) -> None:
        """Record that a person is asked."""
        assert not self.exists, "each question has a state of its own"
        self.record(McpAuthorizationRequested, at=at, server_id=server_id, expires_at=expires_at)

    def answer(self, command: AnswerMcpAuthorization, *, at: datetime) -> Rejected | None:
        """Have an answer, the first one in time."""
        if self.state.expires_at is None:
            return Rejected(code=NOT_FOUND, reason="`state`: nobody was asked with this one")
        if self.state.answered:
            return Rejected(code=CONFLICT, reason="`state`: there is an answer already")
        if at > self.state.expires_at:
            reason = "`state`: it took too long: connect to the server again"
            return Rejected(code=INVALID, reason=reason)
        self.record(
            McpAuthorizationAnswered,
            at=at,
            code=command.code,
            issuer=command.issuer,
            error=command.error,
        )
        return None

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        match event:
            case McpAuthorizationRequested():
                self.state.server_id, self.state.expires_at = event.server_id, event.expires_at
            case McpAuthorizationAnswered():
                self.state.answered, self.state.code = True, event.code
                self.state.issuer, self.state.error = event.issuer, event.error
