"""The name of an MCP server: one server of an organisation has it at a time."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel

from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import CONFLICT, Event, Rejected
from libs.contracts.tools.mcp_servers import McpServerNameFreed, McpServerNameTaken


class McpServerNameState(BaseModel):
    """Who has the name, if anybody."""

    server_id: str | None = None


class McpServerName(Aggregate[McpServerNameState]):
    """A name within an organisation. It changes in the same commit as the server that has it."""

    State = McpServerNameState

    @property
    def server_id(self) -> str | None:
        """The server that has the name."""
        return self.state.server_id

    def take(self, name: str, server_id: str, *, at: datetime) -> Rejected | None:
        """Be the name of a server, unless it is that of another one."""
        if self.state.server_id == server_id:
            return None
        if self.state.server_id is not None:
            reason = (
                f"An MCP server with the name '{name}' exists already: choose another name, or"
                f" change {self.state.server_id}"
            )
            return Rejected(code=CONFLICT, reason=reason)
        self.happened(McpServerNameTaken, at=at, name=name, server_id=server_id)
        return None

    def free(self, name: str, server_id: str, *, at: datetime) -> None:
        """Be nobody's name, if it was that of this server."""
        if self.state.server_id == server_id:
            self.happened(McpServerNameFreed, at=at, name=name, server_id=server_id)

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        match event:
            case McpServerNameTaken():
                self.state.server_id = event.server_id
            case McpServerNameFreed():
                self.state.server_id = None
