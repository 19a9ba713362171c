"""A tool that a client made: its code, and the schema that models are shown."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ValidationError

from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import (
    CONFLICT,
    INVALID,
    NOT_FOUND,
    Event,
    JsonObject,
    Rejected,
)
from libs.contracts.letta.tools import ToolState
from libs.contracts.tools.tools import ToolChanged, ToolCreated, ToolDeleted
from services.tools.domain.tool_definition import with_changes

UNCHANGEABLE = {"id", "tool_type", "created_by_id", "project_id"}


class StoredToolState(BaseModel):
    """The state of a tool."""

    tool: ToolState | None = None
    deleted: bool = False


class Tool(Aggregate[StoredToolState]):
    """One tool."""

    State = StoredToolState

    @property
    def deleted(self) -> bool:
        """Whether it has stopped existing."""
        return self.state.deleted

    @property
    def present(self) -> ToolState | None:
        """The tool, unless it is gone or was never there."""
        return None if self.state.deleted else self.state.tool

    def create(self, tool: ToolState, *, at: datetime) -> Rejected | None:
        """Create the tool, unless it exists."""
        if self.exists:
            return Rejected(code=CONFLICT, reason=f"Tool {tool.id} exists already")
        self.record(ToolCreated, at=at, tool=tool)
        return None

    def become(self, after: ToolState, *, at: datetime) -> Rejected | None:
        """Be as said; what stays the same is not an event."""
        before = self.present
        if before is None:
            return missing(self.id)
        old, new = before.model_dump(mode="json"), after.model_dump(mode="json")
        changes: JsonObject = {
            name: value
            for name, value in new.items()
            if name not in UNCHANGEABLE and value != old[name]
        }
        if changes.keys() - {"last_updated_by_id"}:
            self.record(ToolChanged, at=at, changes=changes)
        return None

    def delete(self, *, at: datetime) -> Rejected | None:
        """Delete the tool, if it exists."""
        if self.present is None:
            return missing(self.id)
        self.record(ToolDeleted, at=at)
        return None

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        match event:
            case ToolCreated():
                self.state.tool = event.tool
            case ToolChanged():
                assert self.state.tool is not None, "a tool is created before it changes"
                self.state.tool = ToolState.model_validate(
                    {**self.state.tool.model_dump(), **event.changes}
                )
            case ToolDeleted():
                self.state.deleted = True


def changed_tool(tool_id: str, tool: ToolState | None, changes: JsonObject) -> ToolState | Rejected:
    """A tool with these changes."""
    if tool is None:
        return missing(tool_id)
    allowed: JsonObject = {
        name: value
        for name, value in changes.items()
        if name not in UNCHANGEABLE and name in ToolState.model_fields
    }
    try:
        return with_changes(tool, allowed)
    except ValidationError as invalid:
        return Rejected(code=INVALID, reason=f"Tool {tool_id}: {why(invalid)}")


def why(invalid: ValidationError) -> str:
    """The problem with the fields of a tool."""
    return "; ".join(
        f"`{'.'.join(map(str, error['loc']))}`: {error['msg']}" for error in invalid.errors()
    )


def missing(tool_id: str) -> Rejected:
    """The refusal for a tool that is not there."""
    return Rejected(code=NOT_FOUND, reason=f"Tool with ID {tool_id} not found")
