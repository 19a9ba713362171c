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


class CreateTool(Command, service=SERVICE, topic="tool.create"):
    """Make a tool.

    Where a client's tool has its name, that one gets the fields that are `given`, and keeps its
    id. The id is the result.
    """

    tool: ToolState
    given: list[str] = Field(default_factory=list)

    @property
    def target(self) -> str:
        return self.tool.id


class UpdateTool(Command, service=SERVICE, topic="tool.update"):
    """Change the given fields of a tool."""

    tool_id: str
    changes: JsonObject

    @property
    def target(self) -> str:
        return self.tool_id


class DeleteTool(Command, service=SERVICE, topic="tool.delete"):
    """Remove a tool; its name is free again."""

    tool_id: str

    @property
    def target(self) -> str:
        return self.tool_id


class DeriveToolSchema(Command, service=SERVICE, topic="tool_schema.derive"):
    """Say what the schema of a tool of this Python source would be."""

    keeps_reply: ClassVar[bool] = False
    asker: str
    source_code: str

    @property
    def target(self) -> str:
        return self.asker


class ToolCreated(Event, service=SERVICE, topic="tool.created"):
    """A tool exists."""

    tool: ToolState


class ToolChanged(Event, service=SERVICE, topic="tool.changed"):
    """Fields of a tool have new values."""

    changes: JsonObject


class ToolDeleted(Event, service=SERVICE, topic="tool.deleted"):
    """A tool is gone."""


class ToolNameTaken(Event, service=SERVICE, topic="tool_name.taken"):
    """A tool of an organisation has this name, and no other one may have it."""

    name: str = ""  # as it was before the log kept none
    tool_id: str

    @property
    def about(self) -> str:
        return self.tool_id


class ToolNameFreed(Event, service=SERVICE, topic="tool_name.freed"):
    """No tool has this name any more."""

    name: str = ""  # as it was before the log kept none
    tool_id: str

    @property
    def about(self) -> str:
        return self.tool_id
