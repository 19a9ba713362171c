"""The language of the tools service: the tools that clients make."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from libs.contracts.bus_messages import Command, Event, JsonObject
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta.tools import ToolState

SERVICE = "tools"


def tool_name_id(org: str, name: str) -> str:
    """The id of the aggregate that guards the name of a tool in an organisation."""
    return derived_id("tool_name", org, name)


class CreateTool(Command):
    """Make a tool.

    Where a client's tool has its name, that one gets the fields that are `given`, and keeps its
    id. The id is the result.
    """

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "tool.create"
    tool: ToolState
    given: list[str] = Field(default_factory=list)

    @property
    def target(self) -> str:
        return self.tool.id


class UpdateTool(Command):
    """Change the given fields of a tool."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "tool.update"
    tool_id: str
    changes: JsonObject

    @property
    def target(self) -> str:
        return self.tool_id


class DeleteTool(Command):
    """Remove a tool; its name is free again."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "tool.delete"
    tool_id: str

    @property
    def target(self) -> str:
        return self.tool_id


class DeriveToolSchema(Command):
    """Say what the schema of a tool of this Python source would be."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "tool_schema.derive"
    keeps_reply: ClassVar[bool] = False
    asker: str
    source_code: str

    @property
    def target(self) -> str:
        return self.asker


class ToolCreated(Event):
    """A tool exists."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "tool.created"
    tool: ToolState


class ToolChanged(Event):
    """Fields of a tool have new values."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "tool.changed"
    changes: JsonObject


class ToolDeleted(Event):
    """A tool is gone."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "tool.deleted"


class ToolNameTaken(Event):
    """A tool of an organisation has this name, and no other one may have it."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "tool_name.taken"
    name: str = ""  # as it was before the log kept none
    tool_id: str

    @property
    def about(self) -> str:
        return self.tool_id


class ToolNameFreed(Event):
    """No tool has this name any more."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "tool_name.freed"
    name: str = ""  # as it was before the log kept none
    tool_id: str

    @property
    def about(self) -> str:
        return self.tool_id
