"""Have the agents of a group see the blocks that it shares, and no longer those that it shared.

An agent keeps a block that it had before the group shared it. So the agent service says whether it
attached a block or knew it already, and says the same again when the command is repeated: the id of
the command follows from the offer, which is recorded first. What became of an offer can be found
out at any time by repeating it, also when the agent has left meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from libs.bus.ports import Bus, Clock, request_as_service
from libs.contracts.agent.agents import AttachBlock, DetachBlock
from libs.contracts.bus_messages import Accepted, Context
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.groups.groups import MemberBlock
from services.groups.adapters.group_queries import GroupQueries, OtherSharing
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
        """Offer, attach and detach what is due; returns how much is left for the next command.
        Raises BusUnavailable; then nothing is recorded, and all can be repeated."""
        due = group.due_blocks()
        if due.to_offer:
            group.record_sharing(due.to_offer, [], at=self.clock.now())
            return len(due.to_offer)
        pairs = [*due.to_settle, *due.to_return]
        if not pairs:
            return 0
        agents = sorted({pair.agent_id for pair in pairs})
        others = await self.queries.shared_by_others(context.org, group.id, agents)
        ready = [pair for pair in pairs if not waits_for_others(group.id, pair, others)]
        ready = ready[:PAIRS_MAX]
        sharing = Sharing(self.bus, group, context, others)
        settled = await sharing.settle([pair for pair in ready if pair.status == "offered"])
        returned = [pair for pair in ready if pair.status != "offered"]
        await sharing.take_back(returned)
        group.record_sharing(settled, returned, at=self.clock.now())
        wanted = [pair for pair in settled if pair.key in due.unwanted]
        return len(pairs) - len(ready) + len(wanted)


def waits_for_others(group_id: str, pair: MemberBlock, others: list[OtherSharing]) -> bool:
    """Whether another group has to find out first who gave an agent a block. Of several groups that
    have offered it, the first one does; nobody takes it back meanwhile."""
    return any(
        other.key == pair.key
        and other.status == "offered"
        and (pair.status != "offered" or other.group_id < group_id)
        for other in others
    )


class Sharing:
    """What one command has the agent service do."""

    def __init__(
        self, bus: Bus, group: Group, context: Context, others: list[OtherSharing]
    ) -> None:
        self.bus = bus
        self.group = group
        self.context = context
        self.shared_by_others = {other.key for other in others if other.status == "shared"}
        self.room = asyncio.Semaphore(PAIRS_AT_ONCE_MAX)

    async def settle(self, pairs: list[MemberBlock]) -> list[MemberBlock]:
        """Attach offered blocks; returns what has become of each."""
        return await self.do_all(pairs, self.attach)

    async def take_back(self, pairs: list[MemberBlock]) -> None:
        """Detach what agents have because of this group alone."""
        ours = [
            pair
            for pair in pairs
            if pair.status == "shared" and pair.key not in self.shared_by_others
        ]
        await self.do_all(ours, self.detach)

    async def do_all[T](
        self, pairs: list[MemberBlock], do: Callable[[MemberBlock], Awaitable[T]]
    ) -> list[T]:
        """Do it with each pair, a bounded number at a time; raises what one of them raises."""

        async def do_in_turn(pair: MemberBlock) -> T:
            async with self.room:
                return await do(pair)

        try:
            async with asyncio.TaskGroup() as all_pairs:
                tasks = [all_pairs.create_task(do_in_turn(pair)) for pair in pairs]
        except ExceptionGroup as problems:
            raise problems.exceptions[0] from None
        return [task.result() for task in tasks]

    async def attach(self, pair: MemberBlock) -> MemberBlock:
        """Attach a block; returns what has become of the offer. A refusal is logged."""
        command = AttachBlock(agent_id=pair.agent_id, block_id=pair.block_id)
        reply = await request_as_service(self.bus, command, self.cause("share", pair))
        if not isinstance(reply, Accepted):
            log.warning("%s is not shared with %s: %s", pair.block_id, pair.agent_id, reply.reason)
            return pair.model_copy(update={"status": "had_before"})
        is_ours = reply.result.get("attached") or pair.key in self.shared_by_others
        return pair.model_copy(update={"status": "shared" if is_ours else "had_before"})

    async def detach(self, pair: MemberBlock) -> None:
        """Detach a block from an agent, which may be gone, or have lost it otherwise."""
        command = DetachBlock(agent_id=pair.agent_id, block_id=pair.block_id)
        await request_as_service(self.bus, command, self.cause("unshare", pair))

    def cause(self, what: str, pair: MemberBlock) -> Context:
        """The context of a command about an offer: its id is the same whenever it is sent."""
        offered_in = str(self.group.state.offered_in[pair.key])
        return self.context.follow_up(derived_id("cmd", what, self.group.id, pair.key, offered_in))
