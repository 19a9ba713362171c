"""When a block is gone, no agent sees it any more."""

from __future__ import annotations

import logging
from typing import Any

from libs.bus.command_dispatcher import Handler
from libs.bus.ports import Bus, BusUnavailable, Ids, request_as_service
from libs.contracts.agent import AgentCreated, AgentUpdated, BlockAttached, DetachBlock
from libs.contracts.bus_messages import NOT_FOUND, Accepted, Context, Event, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.memory import BlockDeleted
from libs.eventstore.unit_of_work import UnitOfWork
from services.agent.adapters.reconciliation_queries import SWEPT_MAX, AgentQueries

log = logging.getLogger(__name__)

# So many are remembered by name, while they cannot be looked at.
UNSURE_MAX = 10_000


class DetachDeletedBlocks:
    """On event X, issue command Y.

    An agent may get a block in the very moment in which that is deleted: it was looked up before,
    and the agent is committed after those that see the block were detached from it. So whoever got
    blocks here, or may have, is looked at once more afterwards; and everybody when the process
    starts, since the one before it may have died in between.
    """

    def __init__(self, bus: Bus, queries: AgentQueries, ids: Ids) -> None:
        self.bus = bus
        self.queries = queries
        self.ids = ids
        self.unsure: set[str] | None = None  # None: everybody

    async def block_deleted(self, event: Event, context: Context) -> None:
        """Detach the block from every agent that has it."""
        assert isinstance(event, BlockDeleted)
        block_id = event.originator_id
        for agent_id in await self.queries.agents_attached_to(context.org, block_id):
            cause = context.caused(derived_id("cmd", context.message_id, agent_id))
            command = DetachBlock(agent_id=agent_id, block_id=block_id)
            await request_as_service(self.bus, command, cause)

    def committed(self, event: Event) -> None:
        """Note who got blocks."""
        if isinstance(event, AgentCreated | AgentUpdated | BlockAttached) and event.block_ids:
            self.look_again({event.originator_id})

    def noting(self, handler: Handler) -> Handler:
        """A handler that gives blocks to an agent. Each time that it comes is noted: what became of
        an earlier commit may not be known, and then it comes again."""

        async def noted(command: Any, work: UnitOfWork) -> Accepted | Rejected:
            self.look_again({command.agent_id})
            return await handler(command, work)

        return noted

    def look_again(self, agent_ids: set[str] | None) -> None:
        """Look at these agents in the next sweep, or at everybody."""
        if agent_ids is None or self.unsure is None:
            self.unsure = None
        else:
            self.unsure |= agent_ids
            if len(self.unsure) > UNSURE_MAX:
                self.unsure = None

    async def sweep(self) -> None:
        """Detach what is gone from those who may have got it too late."""
        unsure, self.unsure = self.unsure, set()
        if unsure is not None and not unsure:
            return
        done = False
        try:
            lost = await self.queries.lost_blocks(None if unsure is None else sorted(unsure))
            for one in lost:
                command = DetachBlock(agent_id=one.agent_id, block_id=one.block_id)
                context = Context(self.ids.new("sweep"), org=one.org)
                reply = await request_as_service(self.bus, command, context)
                if isinstance(reply, Rejected) and reply.code != NOT_FOUND:
                    log.warning("%s is not detached: %s", one, reply.reason)
                    return
            done = len(lost) < SWEPT_MAX
        except BusUnavailable as problem:
            log.warning("agents still see blocks that are gone: %s", problem)
        finally:
            if not done:
                self.look_again(unsure)
