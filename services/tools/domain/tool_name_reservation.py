"""The name of a tool: one tool of an organisation has it at a time."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel

from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import CONFLICT, Event, Rejected
from libs.contracts.letta.enums import ToolType
from libs.contracts.letta.tools import ToolState
from libs.contracts.tools.base_tools.catalogue import CATALOGUE, SERVER_TOOLS
from libs.contracts.tools.tools import ToolNameFreed, ToolNameTaken


class ToolNameState(BaseModel):
    """Who has the name, if anybody."""

    tool_id: str | None = None


class ToolName(Aggregate[ToolNameState]):
    """A name within an organisation. It changes in the same commit as the tool that has it."""

    State = ToolNameState

    @property
    def tool_id(self) -> str | None:
        """The tool that has the name."""
        return self.state.tool_id

    def take(self, name: str, tool_id: str, *, at: datetime) -> Rejected | None:
        """Be the name of a tool, unless it is that of another one."""
        if self.state.tool_id == tool_id:
            return None
        if self.state.tool_id is not None:
            return taken(name)
        self.happened(ToolNameTaken, at=at, name=name, tool_id=tool_id)
        return None

    def free(self, name: str, tool_id: str, *, at: datetime) -> None:
        """Be nobody's name, if it was that of this tool."""
        if self.state.tool_id == tool_id:
            self.happened(ToolNameFreed, at=at, name=name, tool_id=tool_id)

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        match event:
            case ToolNameTaken():
                self.state.tool_id = event.tool_id
            case ToolNameFreed():
                self.state.tool_id = None


def reserved(name: str) -> Rejected | None:
    """The refusal of a name that a tool of the server has, in every organisation."""
    if name not in SERVER_TOOLS:
        return None
    reason = f"A tool with the name '{name}' comes with the server: choose another name"
    return Rejected(code=CONFLICT, reason=reason)


def impersonation(tool: ToolState) -> str:
    """Why a stored tool must not be called: it has the name of a tool that comes with the server,
    as servers before this version let it. Empty for every other tool."""
    if tool.id in CATALOGUE or tool.name not in SERVER_TOOLS:
        return ""
    remedy = (
        "refresh its MCP server, which gives it another name"
        if tool.tool_type is ToolType.external_mcp
        else f"give it another name by PATCH /v1/tools/{tool.id}"
    )
    return (
        f"'{tool.name}' is the name of a tool that comes with the server, but this is {tool.id},"
        f" which is not that tool, so it is not called: {remedy}, or detach it from the agent"
    )


def taken(name: str) -> Rejected:
    """The refusal of a name that another tool has."""
    reason = (
        f"A tool with the name '{name}' exists already: choose another name, or rename or delete"
        " that one"
    )
    return Rejected(code=CONFLICT, reason=reason)
