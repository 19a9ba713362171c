"""Commands about memory blocks: load, decide, save, reply."""

from __future__ import annotations

from collections.abc import Mapping

from libs.bus.command_dispatcher import Handler
from libs.contracts.bus_messages import Accepted, Command, JsonObject, Rejected
from libs.contracts.memory.blocks import (
    CreateBlocks,
    DeleteBlock,
    EditBlock,
    PatchBlock,
    RenameBlock,
    RestoreBlock,
    RewriteBlock,
    UpdateBlock,
)
from libs.eventstore.unit_of_work import UnitOfWork
from services.memory.domain.block import Block, no_version, refuse_label
from services.memory.handlers.ports import HandlerPorts


class BlockHandlers:
    """The handlers of commands to blocks."""

    def __init__(self, ports: HandlerPorts) -> None:
        self.clock = ports.clock
        self.attached = ports.attached
        self.past_block_versions = ports.past_block_versions

    def table(self) -> Mapping[type[Command], Handler]:
        """The handler of each command."""
        return {
            CreateBlocks: self.create_blocks,
            UpdateBlock: self.update_block,
            EditBlock: self.edit_block,
            RewriteBlock: self.rewrite_block,
            PatchBlock: self.patch_block,
            RenameBlock: self.rename_block,
            RestoreBlock: self.restore_block,
            DeleteBlock: self.delete_block,
        }

    async def create_blocks(self, command: CreateBlocks, work: UnitOfWork) -> Accepted | Rejected:
        """Make memory blocks, all or none."""
        for wanted in command.blocks:
            block = await work.load_new(Block, wanted.id)
            refused = block.create(
                wanted,
                at=self.clock.now(),
                agent_id=command.agent_id,
                conversation_id=command.conversation_id,
            )
            if refused:
                return refused
        return Accepted()

    async def update_block(self, command: UpdateBlock, work: UnitOfWork) -> Accepted | Rejected:
        """Change the given fields of a block."""
        block = await work.load(Block, command.block_id)
        refused = await self.label_taken(block, command.changes, work.context.org)
        return refused or block.update(command.changes, at=self.clock.now()) or Accepted()

    async def label_taken(self, block: Block, changes: JsonObject, org: str) -> Rejected | None:
        """The refusal of a label that another block of the same agent has."""
        label = block.renames(changes)
        other = await self.attached.same_label(org, block.id, label) if label else None
        return refuse_label(block.id, label, other) if label and other else None

    async def edit_block(self, command: EditBlock, work: UnitOfWork) -> Accepted | Rejected:
        """Edit the value of a block as a tool call asks; the result is the new value."""
        block = await work.load(Block, command.block_id)
        refused = block.edit(command.edit, command.cause, at=self.clock.now())
        return refused or new_value(block)

    async def rewrite_block(self, command: RewriteBlock, work: UnitOfWork) -> Accepted | Rejected:
        """Give a block another value as a tool call asks; the result is that."""
        block = await work.load(Block, command.block_id)
        refused = block.rewrite(command.value, command.cause, at=self.clock.now())
        return refused or new_value(block)

    async def patch_block(self, command: PatchBlock, work: UnitOfWork) -> Accepted | Rejected:
        """Replace lines of a block as a tool call asks; the result is the new value."""
        block = await work.load(Block, command.block_id)
        refused = block.patch(command.changes, command.cause, at=self.clock.now())
        return refused or new_value(block)

    async def rename_block(self, command: RenameBlock, work: UnitOfWork) -> Accepted | Rejected:
        """Give a block another label or description as a tool call asks."""
        block = await work.load(Block, command.block_id)
        changes: JsonObject = {"label": command.label}
        refused = await self.label_taken(block, changes, work.context.org)
        return refused or block.rename(command, at=self.clock.now()) or Accepted()

    async def restore_block(self, command: RestoreBlock, work: UnitOfWork) -> Accepted | Rejected:
        """Give a block the fields of an earlier version."""
        block = await work.load(Block, command.block_id)
        org = work.context.org
        fields = await self.past_block_versions.fields_at(org, block.id, command.version)
        if fields is None:
            return no_version(block.id, command.version)
        refused = await self.label_taken(block, fields, org)
        return refused or block.restore(fields, command, at=self.clock.now()) or Accepted()

    async def delete_block(self, command: DeleteBlock, work: UnitOfWork) -> Accepted | Rejected:
        """Remove a block, if it exists."""
        block = await work.load(Block, command.block_id)
        return block.delete(at=self.clock.now()) or Accepted()


def new_value(block: Block) -> Accepted:
    """The answer to who has edited a block."""
    assert block.present is not None
    return Accepted(result={"value": block.present.value})
