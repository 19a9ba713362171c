"""The parts of `memory` and `memory_apply_patch` that create, delete and relabel blocks."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator

from libs.contracts.agent.agents import AttachBlock, DetachBlock
from libs.contracts.bus_messages import NOT_FOUND, Command, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta.blocks import BlockState
from libs.contracts.memory.blocks import (
    Cause,
    CreateBlocks,
    DeleteBlock,
    Edit,
    EditBlock,
    InsertText,
    PatchBlock,
    RenameBlock,
    ReplaceLines,
    RewriteBlock,
)
from services.agent.adapters.block_commands import (
    BlockCommands,
    block_named,
    cause_of,
    label_as_stored,
    no_block,
)
from services.agent.adapters.tool_owner_port import Calling, error
from services.agent.domain.runs.step_results import ToolResult


class BlockOperations:
    """Changes that one call makes; `part` tells apart those of one call."""

    def __init__(self, commands: BlockCommands, calling: Calling, part: str = "") -> None:
        self.commands = commands
        self.calling = calling
        self.part = part

    @property
    def own_block(self) -> str:
        """The id of a block that this change makes."""
        return derived_id("block", self.calling.step_id, self.calling.call.id, self.part)

    async def create(self, label: str, value: str, description: str | None) -> ToolResult:
        """Make a block and show it to the agent."""
        block_id = self.own_block
        known = await self.commands.by_label(self.calling)
        if known.get(label, block_id) != block_id:
            return error(f"There is a memory block '{label}' already: edit it, or name this else.")
        block = BlockState(
            id=block_id,
            label=label,
            value=value.replace("\x00", ""),
            description=description,
            created_by_id=self.calling.context.actor or None,
        )
        refused = await self.send(CreateBlocks(blocks=[block]), "create")
        if refused:
            return refused
        agent_id = self.calling.design.config.id
        refused = await self.send(AttachBlock(agent_id=agent_id, block_id=block_id), "attach")
        if refused:
            await self.send(DeleteBlock(block_id=block_id), "undo")
            return refused
        return ToolResult("success", f"You have a memory block '{label}' now.")

    async def append(self, label: str, content: str) -> ToolResult:
        """Add lines to the end of a block; one that is not there is made, once, also where two
        calls want it at the same time."""
        return await self.change_or_create(
            label,
            content,
            lambda block_id, cause: EditBlock(
                block_id=block_id, edit=InsertText(new_text=content), cause=cause
            ),
        )

    async def rewrite(self, label: str, value: str) -> ToolResult:
        """Give a block another value; one that is not there is made."""
        return await self.change_or_create(
            label,
            value,
            lambda block_id, cause: RewriteBlock(block_id=block_id, value=value, cause=cause),
        )

    async def change_or_create(
        self, label: str, value: str, change: Callable[[str, Cause], EditBlock | RewriteBlock]
    ) -> ToolResult:
        """Change a block; if there is none, create it with this value."""
        known = await self.commands.by_label(self.calling)
        block_id = block_named(label, known)
        if block_id in (None, self.own_block):
            made = await self.create(label, value, None)
            if made.status == "success":
                return ToolResult("success", value.replace("\x00", ""))
            agent, org = self.calling.design.config.id, self.calling.context.org
            block_id = await self.commands.queries.attached_block(org, agent, label)
            if block_id is None:
                return made
        command = change(block_id, cause_of(self.calling))
        reply = await self.commands.send(self.calling, command)
        if isinstance(reply, Rejected):
            return error(reply.reason)
        return ToolResult("success", str(reply.result["value"]))

    async def edit(self, label: str, edit: Edit) -> ToolResult:
        """Edit the value of a block."""
        found = await self.find(label)
        if isinstance(found, ToolResult):
            return found
        cause = cause_of(self.calling)
        return await self.send_edit(EditBlock(block_id=found, edit=edit, cause=cause))

    async def patch(self, label: str, changes: list[ReplaceLines]) -> ToolResult:
        """Replace lines of a block, all or none."""
        found = await self.find(label)
        if isinstance(found, ToolResult):
            return found
        cause = cause_of(self.calling)
        return await self.send_edit(PatchBlock(block_id=found, changes=changes, cause=cause))

    async def delete(self, label: str) -> ToolResult:
        """Show a block to the agent no more. It stays for others, and for people."""
        found = await self.find(label)
        if isinstance(found, ToolResult):
            return found
        org = self.calling.context.org
        blocks = await self.commands.queries.seen_blocks(org, [found])
        if any(block.read_only for block in blocks):
            return error(f"The memory block '{label}' is read-only and cannot be deleted.")
        command = DetachBlock(agent_id=self.calling.design.config.id, block_id=found)
        reply = await self.commands.send(self.calling, command, "detach", self.part)
        if not isinstance(reply, Rejected):
            return ToolResult(
                "success", f"The memory block '{label}' is not in your memory any more."
            )
        if reply.code == NOT_FOUND:
            return error(
                f"The memory block '{label}' belongs to this conversation: it stays in it."
            )
        return error(reply.reason)

    async def rename(
        self, old_label: str, label: str | None, description: str | None
    ) -> ToolResult:
        """Give a block another label or description."""
        known = await self.commands.by_label(self.calling)
        taken = block_named(label, known) if label else None
        # Where the call is carried out again, the block has its new label already: its command is
        # answered as it was, and any other is refused there.
        block_id = block_named(old_label, known) or taken
        if block_id is None:
            return error(no_block(old_label, known))
        if taken not in (None, block_id):
            return error(f"There is a memory block '{label}' already: take another name.")
        command = RenameBlock(
            block_id=block_id,
            old_label=label_as_stored(old_label, known),
            label=label,
            description=description,
            cause=cause_of(self.calling),
        )
        refused = await self.send(command, "rename")
        changed = f"is '{label}' now" if label else "has its description now"
        return refused or ToolResult("success", f"The memory block '{old_label}' {changed}.")

    async def find(self, label: str) -> str | ToolResult:
        """The id of a block, or what the model is told if there is none."""
        known = await self.commands.by_label(self.calling)
        return block_named(label, known) or error(no_block(label, known))

    async def send(self, command: Command, verb: str) -> ToolResult | None:
        """Send a command; returns the error for the model if it is refused, else None."""
        reply = await self.commands.send(self.calling, command, verb, self.part)
        return error(reply.reason) if isinstance(reply, Rejected) else None

    async def send_edit(self, command: EditBlock | PatchBlock) -> ToolResult:
        """Send an edit; the result is the block's new value, or why it was refused."""
        reply = await self.commands.send(self.calling, command, "edit", self.part)
        if isinstance(reply, Rejected):
            return error(reply.reason)
        return ToolResult("success", str(reply.result["value"]))


_NUMBERED = re.compile(r"^\d+→ ", re.MULTILINE)


def without_line_numbers(text: str | None) -> str | None:
    """The text; raises ValueError if it has the numbers that a prompt shows before lines."""
    if text and _NUMBERED.search(text):
        raise ValueError("leave out the line numbers ('1→ '): they only show positions")
    return text


Text = Annotated[str, AfterValidator(without_line_numbers)]
OptionalText = Annotated[str | None, AfterValidator(without_line_numbers)]
