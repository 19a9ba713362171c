"""What happens to archives when an agent is deleted, and to the passages of deleted ones."""

from __future__ import annotations

import logging

from libs.bus.ports import Bus, BusUnavailable, Clock, Ids, request_as_service
from libs.contracts.agent.agents import AgentDeleted
from libs.contracts.bus_messages import Accepted, Command, Context, Event, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.memory.archives import DeleteArchive, DetachArchive, EmptyArchive
from services.memory.adapters.archive_queries import ArchiveQueries
from services.memory.domain.archive import SETTLED_SECONDS, own_archive_ids

log = logging.getLogger(__name__)

BATCHES_PER_SWEEP_MAX = 20
ORPHANS_EVERY_SECONDS = 60.0


class ArchivePolicies:
    """On event X, issue command Y."""

    def __init__(self, bus: Bus, archives: ArchiveQueries, clock: Clock, ids: Ids) -> None:
        self.bus = bus
        self.archives = archives
        self.clock = clock
        self.ids = ids
        self.orphans_at = 0.0

    async def agent_deleted(self, event: Event, context: Context) -> None:
        """An agent's own archive goes with it, unless another has it; no other is attached to it
        any more."""
        assert isinstance(event, AgentDeleted)
        agent_id = event.originator_id
        for one in await self.archives.collections_of(context.org, agent_id):
            cause = context.caused(derived_id("cmd", context.message_id, one.id))
            await request_as_service(self.bus, taken_from(agent_id, one.id), cause)

    async def sweep(self) -> None:
        """Remove what deleted archives have left, a bounded number at a time; and take archives
        from agents that were deleted while they got them."""
        try:
            for removal in await self.archives.removals(SETTLED_SECONDS):
                await self.empty(removal.archive_id, removal.org)
            if self.clock.monotonic() >= self.orphans_at:
                for one in await self.archives.orphaned():
                    await self.send(taken_from(one.agent_id, one.archive_id), one.org)
                self.orphans_at = self.clock.monotonic() + ORPHANS_EVERY_SECONDS
        except BusUnavailable as problem:
            log.warning("deleted archives still have passages: %s", problem)

    async def empty(self, archive_id: str, org: str) -> None:
        """Remove the next passages of a deleted archive."""
        for _ in range(BATCHES_PER_SWEEP_MAX):
            reply = await self.send(EmptyArchive(archive_id=archive_id), org)
            if not isinstance(reply, Accepted) or not reply.result.get("removed"):
                return

    async def send(self, command: Command, org: str) -> Accepted | Rejected:
        """Send a command that no event causes."""
        context = Context(self.ids.new("sweep"), org=org)
        return await request_as_service(self.bus, command, context)


def taken_from(agent_id: str, archive_id: str) -> Command:
    """The command that takes an archive from an agent that is no more."""
    if archive_id in own_archive_ids(agent_id):
        return DeleteArchive(archive_id=archive_id, unless_attached=agent_id)
    return DetachArchive(archive_id=archive_id, agent_id=agent_id)
