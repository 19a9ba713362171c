"""Have the agents of a group see the blocks that it shares, and no longer those that it shared.

An agent keeps a block that it had before the group shared it. So the agent service says whether it
attached a block or knew it already, and says the same again when the command is repeated: the id of
the command follows from the group, the agent, the block, and when these came together.
"""

from __future__ import annotations

import asyncio
import logging

from libs.bus.ports import Bus, Clock, request_as_service
from libs.contracts.agent.agents import AttachBlock, DetachBlock
from libs.contracts.bus_messages import Accepted, Context
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.groups.groups import MemberBlock
from services.groups.adapters.group_queries import GroupQueries
from services.groups.domain.group import Group

log = logging.getLogger(__name__)

# Of one command, and at once.
PAIRS_MAX = 100
PAIRS_AT_ONCE_MAX = 8


class BlockSharing:
    """Attaches and detaches blocks by commands to the agent service."""

    def __init__(self, bus: Bus, queries: GroupQueries, clock: Clock) -> None:
        self.bus = bus
        self.queries = queries
        self.clock = clock

    async def share(self, group: Group, context: Context) -> int:
        """Attach and detach what is due, `PAIRS_MAX` blocks at most; returns how many are left.
        Raises BusUnavailable; then nothing is recorded, and all can be repeated."""
        due = group.due_blocks()
        to_return = due.to_return[:PAIRS_MAX]
        to_share = due.to_share[: PAIRS_MAX - len(to_return)]
        pairs = [*to_return, *to_share]
        if not pairs:
            return 0
        agents = sorted({pair.agent_id for pair in pairs})
        others = await self.queries.shared_by_others(context.org, group.id, agents)
        room = asyncio.Semaphore(PAIRS_AT_ONCE_MAX)

        async def take_back(pair: MemberBlock) -> None:
            async with room:
                if not pair.had_before and pair.key not in others:
                    await self.detach(group, pair, context)

        async def give(pair: MemberBlock) -> MemberBlock:
            async with room:
                attached = await self.attach(group, pair, context)
            stays = not attached and pair.key not in others
            return pair.model_copy(update={"had_before": stays})

        try:
            async with asyncio.TaskGroup() as all_pairs:
                for pair in to_return:
                    all_pairs.create_task(take_back(pair))
                given = [all_pairs.create_task(give(pair)) for pair in to_share]
        except ExceptionGroup as problems:
            raise problems.exceptions[0] from None
        shared = [task.result() for task in given]
        group.record_shared(shared, to_return, at=self.clock.now())
        return len(due.to_return) + len(due.to_share) - len(pairs)

    async def attach(self, group: Group, pair: MemberBlock, context: Context) -> bool:
        """Returns whether the agent got the block by this; a refusal is logged."""
        since = str(group.since(pair))
        cause = derived_id("cmd", "share", group.id, pair.agent_id, pair.block_id, since)
        command = AttachBlock(agent_id=pair.agent_id, block_id=pair.block_id)
        reply = await request_as_service(self.bus, command, context.follow_up(cause))
        if isinstance(reply, Accepted):
            return bool(reply.result.get("attached"))
        log.warning("%s is not shared with %s: %s", pair.block_id, pair.agent_id, reply.reason)
        return False

    async def detach(self, group: Group, pair: MemberBlock, context: Context) -> None:
        """Take a block back from an agent, which may be gone, or have lost it otherwise."""
        since = str(group.version)
        cause = derived_id("cmd", "unshare", group.id, pair.agent_id, pair.block_id, since)
        command = DetachBlock(agent_id=pair.agent_id, block_id=pair.block_id)
        await request_as_service(self.bus, command, context.follow_up(cause))
