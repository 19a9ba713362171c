"""The language of the memory service: blocks, and who changed them why."""

from __future__ import annotations

from operator import not_
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from libs.contracts.bus_messages import Command, Event, JsonObject, Value, is_none
from libs.contracts.letta.blocks import BlockState

SERVICE = "memory"


def _possible_block(block: BlockState) -> BlockState:
    """The block with a limit that a block can have: what an older log says otherwise is read so."""
    return block if block.limit >= 1 else block.model_copy(update={"limit": 1})


def _possible_changes(changes: JsonObject) -> JsonObject:
    """The changes with a limit that a block can have, as in `_possible_block`."""
    limit = changes.get("limit")
    return {**changes, "limit": 1} if isinstance(limit, int) and limit < 1 else changes


class Cause(Value):
    """The tool call that asked for an edit; without one the caller in the metadata did."""

    agent_id: str
    run_id: str
    tool_call_id: str
    tool: str


class CreateBlocks(Command, service=SERVICE, topic="blocks.create"):
    """Make memory blocks, all or none; with `agent_id` or `conversation_id` they are made for an
    agent or a conversation that is about to be created, and are deleted if it never is."""

    blocks: list[BlockState]
    agent_id: str = Field(default="", exclude_if=not_)
    conversation_id: str = Field(default="", exclude_if=not_)

    @property
    def target(self) -> str:
        return self.blocks[0].id


class BlockCommand(Command, service=SERVICE):
    """A command about one block."""

    block_id: str

    @property
    def target(self) -> str:
        return self.block_id


class UpdateBlock(BlockCommand, topic="block.update"):
    """Change the given fields of a block."""

    changes: JsonObject


class ReplaceText(Value):
    """Replace the one place where a text stands, or `every` place."""

    kind: Literal["replace"] = "replace"
    old_text: str
    new_text: str
    every: bool = Field(default=False, exclude_if=not_)


class InsertText(Value):
    """Insert lines after a line; 0 is the beginning, -1 the end."""

    kind: Literal["insert"] = "insert"
    new_text: str
    after_line: int = -1


Edit = Annotated[ReplaceText | InsertText, Field(discriminator="kind")]


class EditBlock(BlockCommand, topic="block.edit"):
    """Edit the value of a block as a tool call asks."""

    edit: Edit
    cause: Cause


class RewriteBlock(BlockCommand, topic="block.rewrite"):
    """Give a block another value as a whole, as a tool call asks."""

    value: str
    cause: Cause


class ReplaceLines(Value):
    """Replace the one place where these whole lines stand; without old lines the new ones are put
    at the end."""

    old_lines: list[str]
    new_lines: list[str]


class PatchBlock(BlockCommand, topic="block.patch"):
    """Replace lines of a block in several places, all or none, as a tool call asks."""

    changes: list[ReplaceLines]
    cause: Cause


class RenameBlock(BlockCommand, topic="block.rename"):
    """Give a block that has the label `old_label` another label, another description or both, as a
    tool call asks."""

    old_label: str
    label: str | None = None
    description: str | None = None
    cause: Cause


class RestoreBlock(BlockCommand, topic="block.restore"):
    """Give a block the fields that it had in an earlier version, unless it has changed since
    `if_version`."""

    version: int
    if_version: int | None = None


class DeleteBlock(BlockCommand, topic="block.delete"):
    """Remove a block."""


class BlockCreated(Event, service=SERVICE, topic="block.created"):
    """A memory block exists; `agent_id` is the agent that it was made for, `conversation_id` the
    conversation, empty for none."""

    block: Annotated[BlockState, AfterValidator(_possible_block)]
    agent_id: str = Field(default="", exclude_if=not_)
    conversation_id: str = Field(default="", exclude_if=not_)


class BlockChanged(Event, service=SERVICE, topic="block.changed"):
    """Fields of a memory block have new values; `restored_version` is the version whose values they
    are, if somebody wanted those back."""

    changes: Annotated[JsonObject, AfterValidator(_possible_changes)]
    cause: Cause | None = None
    restored_version: int | None = Field(default=None, exclude_if=is_none)


class BlockDeleted(Event, service=SERVICE, topic="block.deleted"):
    """A memory block is gone."""
