"""Policies on archives when an agent is deleted, and on the passages of deleted ones."""

from __future__ import annotations

from collections.abc import Sequence

from libs.bus.ports import Bus, Clock, Ids, request_as_service
from libs.contracts.agent.agents import AgentDeleted
from libs.contracts.bus_messages import Accepted, Command, Context, Event
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.memory.archives import DeleteArchive, DetachArchive, EmptyArchive
from libs.work.reconciliation import Correction
from services.memory.adapters.archive_queries import (
    SWEPT_MAX,
    ArchiveQueries,
    Attachment,
    Removal,
)
from services.memory.domain.archive import SETTLED_SECONDS, own_archive_ids

BATCHES_PER_SWEEP_MAX = 20


class ArchivePolicies:
    """On event X, issue command Y."""

    def __init__(self, bus: Bus, archives: ArchiveQueries, clock: Clock, ids: Ids) -> None:
        self.bus = bus
        self.archives = archives
        self.removals = EmptyDeletedArchives(bus, archives, clock, ids)
        self.orphans = DetachFromDeletedAgents(bus, archives, clock, ids)

    async def agent_deleted(self, event: Event, context: Context) -> None:
        """An agent's own archive goes with it, unless another has it; no other is attached to it
        any more."""
        assert isinstance(event, AgentDeleted)
        agent_id = event.originator_id
        for archive in await self.archives.collections_of(context.org, agent_id):
            cause = context.follow_up(derived_id("cmd", context.message_id, archive.id))
            await request_as_service(self.bus, taken_from(agent_id, archive.id), cause)

    async def sweep(self) -> None:
        """Remove what deleted archives have left, and take archives from deleted agents."""
        await self.removals.sweep()
        await self.orphans.sweep()


class EmptyDeletedArchives(Correction[Removal, ArchiveQueries]):
    """Removes the passages that deleted archives have left, as soon as none can be on its way."""

    name = "passages of deleted archives"
    batch_max = SWEPT_MAX
    every_seconds = 0.0

    async def find(self, keys: list[str] | None) -> Sequence[Removal]:
        """The deleted archives that may have passages left."""
        return await self.queries.removals(SETTLED_SECONDS)

    async def mend(self, item: Removal) -> bool:
        """Remove the next passages of one of them, a bounded number at a time."""
        for _ in range(BATCHES_PER_SWEEP_MAX):
            context = Context(self.ids.new("sweep"), org=item.org)
            command = EmptyArchive(archive_id=item.archive_id)
            reply = await request_as_service(self.bus, command, context)
            if not isinstance(reply, Accepted):
                return False
            if not reply.result.get("removed"):
                break
        return True


class DetachFromDeletedAgents(Correction[Attachment, ArchiveQueries]):
    """Takes archives from agents that were deleted while they got them."""

    name = "archives of agents that are gone"
    batch_max = SWEPT_MAX

    async def find(self, keys: list[str] | None) -> Sequence[Attachment]:
        """Attachments to agents that are no more."""
        return await self.queries.orphaned_attachments(keys)

    async def mend(self, item: Attachment) -> bool:
        """Take one archive from its agent."""
        command = taken_from(item.agent_id, item.archive_id)
        return await self.send(command, item.org)


def taken_from(agent_id: str, archive_id: str) -> Command:
    """The command that takes an archive from an agent that is no more."""
    if archive_id in own_archive_ids(agent_id):
        return DeleteArchive(archive_id=archive_id, unless_attached=agent_id)
    return DetachArchive(archive_id=archive_id, agent_id=agent_id)
