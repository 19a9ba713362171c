"""The commands that give an agent back what it had at a moment, in the order in which they are
sent. Each of them records nothing where all is so already."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager

from libs.contracts.agent.agents import AttachBlock, DetachBlock, RestoreConfiguration
from libs.contracts.agent.compaction import ReplaceContext
from libs.contracts.agent.conversations import main_conversation
from libs.contracts.api.restores import RestoredPart, replacement_id
from libs.contracts.bus_messages import Command
from libs.contracts.letta.blocks import BlockState
from libs.contracts.memory.blocks import CreateBlocks, RestoreBlock, UpdateBlock
from services.api.adapters.agents.past_reads import Cut
from services.api.adapters.agents.restore_queries import RestoreQueries

REPLACEMENTS_MAX = 20
# What no other block has, and what says who changed it.
NOT_COPIED = {"id", "created_by_id", "last_updated_by_id"}

type AsOf = Callable[[Cut], AbstractAsyncContextManager[None]]


class RestorePlan:
    """The changes for one agent and one moment. The past is read as of the moment, the present when
    its part comes."""

    def __init__(self, queries: RestoreQueries, as_of: AsOf, cut: Cut) -> None:
        self.queries = queries
        self.as_of = as_of
        self.cut = cut

    async def commands(self, what: Sequence[RestoredPart]) -> AsyncIterator[Command]:
        """The commands, one by one: the one that a run may be in the way of comes first."""
        if "context" in what:
            yield await self.restore_context()
        if "configuration" in what:
            yield await self.restore_configuration()
        if "blocks" in what:
            async for command in self.restore_blocks():
                yield command

    async def restore_context(self) -> Command:
        """Show models what they were shown of the agent's own conversation."""
        org, agent_id = self.cut.org, self.cut.agent_id
        async with self.as_of(self.cut):
            message_ids = await self.queries.context(org, agent_id)
        conversation = main_conversation(agent_id)
        version = await self.version_of("agent", conversation)
        return ReplaceContext(
            agent_id=agent_id, message_ids=message_ids, restored_from=f"{conversation}.{version}"
        )

    async def restore_configuration(self) -> Command:
        """Give the agent its configuration, tools and tags."""
        version = await self.version_of("agent", self.cut.agent_id)
        return RestoreConfiguration(agent_id=self.cut.agent_id, version=version)

    async def version_of(self, service: str, aggregate_id: str) -> int:
        """The version of an aggregate at the moment."""
        found = await self.queries.versions_at(
            self.cut.org, service, [aggregate_id], self.cut.commit_order
        )
        return found[aggregate_id]

    async def restore_blocks(self) -> AsyncIterator[Command]:
        """Detach what was not attached, give the others their fields, and attach what is missing.
        A block that is gone is made again under another id."""
        org, agent_id = self.cut.org, self.cut.agent_id
        async with self.as_of(self.cut):
            past = await self.queries.memory(org, agent_id)
        now = await self.queries.memory(org, agent_id)
        present = await self.queries.present_blocks(org, list(past.blocks))
        gone = [block for name, block in past.blocks.items() if name not in present]
        replaced = {block.id: await self.replacement(block.id) for block in gone}
        wanted = [replaced.get(name, name) for name in past.attached if name in past.blocks]
        for block_id in now.attached:
            if block_id not in wanted:
                yield DetachBlock(agent_id=agent_id, block_id=block_id)
        versions = await self.queries.versions_at(
            org, "memory", list(present), self.cut.commit_order
        )
        for block_id in present:
            yield RestoreBlock(block_id=block_id, version=versions[block_id])
        there = await self.queries.present_blocks(org, list(replaced.values()))
        for block in gone:
            yield copy_of(block, replaced[block.id], is_there=replaced[block.id] in there)
        for block_id in wanted:
            if block_id not in now.attached:
                yield AttachBlock(agent_id=agent_id, block_id=block_id)

    async def replacement(self, block_id: str) -> str:
        """The id of the block that stands for one that was deleted: the first that is there, or
        that never was."""
        org, agent_id = self.cut.org, self.cut.agent_id
        names = [replacement_id(agent_id, block_id, number) for number in range(REPLACEMENTS_MAX)]
        created = await self.queries.created_blocks(org, names)
        there = await self.queries.present_blocks(org, names)
        free = (name for name in names if name in there or name not in created)
        return next(free, names[-1])


def copy_of(block: BlockState, block_id: str, *, is_there: bool) -> Command:
    """Make a block as one that is gone was, or make the one that stands for it like that."""
    if is_there:
        changes = block.model_dump(mode="json", exclude=NOT_COPIED)
        return UpdateBlock(block_id=block_id, changes=changes)
    return CreateBlocks(blocks=[block.model_copy(update={"id": block_id})])
