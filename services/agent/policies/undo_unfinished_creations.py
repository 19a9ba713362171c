"""Blocks that were made for an agent or a conversation which never came are deleted again."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic_core import from_json

from libs.bus.aggregate_locks import AggregateLocks
from libs.bus.ports import Bus, Clock, Ids, request_as_service
from libs.contracts.bus_messages import CONFLICT, Context, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.memory.blocks import BlockCreated, DeleteBlock
from libs.eventstore.ports import IMPORT, Commit, Move, StaleLease, StoredEvent
from libs.eventstore.unit_of_work import Repository, UnitOfWork
from libs.work.reconciliation import Reconciliation
from services.agent.adapters.reconciliation_queries import AgentQueries, MadeBlock
from services.agent.domain.agents.agent import Agent
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.conversations.conversation_lifecycle import abandon

log = logging.getLogger(__name__)

UPSTREAM = "memory"
CONVERSATIONS = "conv-"
POSITION = "memory.creations"  # the name of the position in the log of the memory service
# A client waits 10 s for its agent, and its command is dropped when it does not wait any more.
UNFINISHED_SECONDS = 60.0
LOOK_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class LogPage:
    """A part of the log of the memory service, and the blocks that were made in it for owners."""

    begin: int
    end: int
    made: list[MadeBlock] = field(repr=False)  # too long for a log


class UndoUnfinishedCreations(Reconciliation[LogPage]):
    """Deletes the blocks of agents and conversations whose creation was never finished.

    An agent is created in two commits: the memory service makes its blocks, then the agent is
    recorded; a conversation with blocks of its own likewise. If the process dies between the two
    and the command is not sent again, the blocks have no owner.

    Each block.created names its owner. This policy reads the log of the memory service a minute
    late. An owner that does not exist by then is first abandoned in its own history, so that a
    late creation fails with a conflict. An import takes its blocks back itself. All of it is safe
    to repeat, by several processes too.
    """

    name = "creations that were not finished"
    batch_max = 1
    every_seconds = LOOK_SECONDS

    def __init__(
        self,
        repository: Repository,
        queries: AgentQueries,
        bus: Bus,
        clock: Clock,
        ids: Ids,
        locks: AggregateLocks,
    ) -> None:
        super().__init__(clock)
        self.repository = repository
        self.store = repository.store
        self.queries = queries
        self.bus = bus
        self.ids = ids
        self.locks = locks
        # Where the log ended, and when, by the clock that nobody sets; and where it is old enough.
        self.ends: deque[tuple[float, int]] = deque()
        self.old = 0

    async def find(self, keys: list[str] | None) -> Sequence[LogPage]:
        """The next page of the log, up to a position that is old enough."""
        position = await self.store.position(POSITION)
        now = self.clock.monotonic()
        end = (await self.store.read_upstream(UPSTREAM, position, [])).seen_up_to
        self.ends.append((now, end))
        while self.ends and self.ends[0][0] <= now - UNFINISHED_SECONDS:
            self.old = self.ends.popleft()[1]
        if position >= self.old:
            return []
        page = await self.store.read_upstream(UPSTREAM, position, [BlockCreated.topic])
        made = [
            made_block(event)
            for event in page.events
            if event.position <= self.old and IMPORT not in event.metadata
        ]
        wanted = [block for block in made if block.owner_id]
        return [LogPage(position, min(page.seen_up_to, self.old), wanted)]

    async def mend(self, item: LogPage) -> bool:
        """Undo what is unfinished in a page, and move the position behind it."""
        for block in await self.queries.unclaimed_blocks(item.made) if item.made else []:
            await self.undo(block)
        try:
            await self.store.commit(Commit(move=Move(POSITION, item.begin, item.end)))
        except StaleLease:
            log.debug("another process has undone these")
        return True

    async def undo(self, block: MadeBlock) -> None:
        """Give the owner up, if there is none by that id, and delete the block, if no owner in its
        organisation was created with it."""
        context = Context(self.ids.new("sweep"), org=block.org)
        async with self.locks.hold(block.owner_id):
            work = self.repository.work(context)
            is_agent = not block.owner_id.startswith(CONVERSATIONS)
            claimed = self.claimed_by_agent if is_agent else self.claimed_by_conversation
            if await claimed(block, work):
                return
            await work.commit()
        log.warning("%s was made for %s, which never came: deleted", block.block_id, block.owner_id)
        cause = context.follow_up(derived_id("cmd", block.owner_id, block.block_id, "undo"))
        await request_as_service(self.bus, DeleteBlock(block_id=block.block_id), cause)

    async def claimed_by_agent(self, block: MadeBlock, work: UnitOfWork) -> bool:
        """Whether an agent was created with a block; one that never came is given up."""
        agent = await work.load(Agent, block.owner_id)
        if block.block_id in agent.state.own_block_ids:
            return True
        if not agent.exists and agent.org in ("", block.org):
            agent.abandon(given_up(agent.id), at=self.clock.now())
        return False

    async def claimed_by_conversation(self, block: MadeBlock, work: UnitOfWork) -> bool:
        """Whether a conversation was created with a block; one that never came is given up."""
        conversation = await work.load(Conversation, block.owner_id)
        if block.block_id in conversation.state.own_blocks:
            return True
        if not conversation.exists and conversation.org in ("", block.org):
            abandon(conversation, at=self.clock.now())
        return False


def made_block(event: StoredEvent) -> MadeBlock:
    """A block, and the agent or the conversation that it was made for, empty for none."""
    payload = from_json(event.payload_json)
    owner_id = payload.get("agent_id") or payload.get("conversation_id") or ""
    return MadeBlock(owner_id, event.aggregate_id, event.org)


def given_up(agent_id: str) -> Rejected:
    """The refusal of a repeated request for an agent whose creation was abandoned."""
    reason = (
        f"Agent {agent_id} was asked for before, was not finished in time, and its blocks are "
        "deleted: ask for an agent with another Idempotency-Key"
    )
    return Rejected(code=CONFLICT, reason=reason)
