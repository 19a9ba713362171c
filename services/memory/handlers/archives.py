"""Commands about archives: load, decide, save, reply."""

from __future__ import annotations

from collections.abc import Mapping

from libs.bus.command_dispatcher import Handler
from libs.contracts.bus_messages import CONFLICT, UNPROCESSABLE, Accepted, Command, Rejected
from libs.contracts.memory.archives import (
    AttachArchive,
    CreateArchive,
    DeleteArchive,
    DetachArchive,
    EmptyArchive,
    UpdateArchive,
)
from libs.eventstore.unit_of_work import UnitOfWork
from services.memory.domain.archive import Archive, missing_agent, too_many_archives
from services.memory.domain.passage import Passage
from services.memory.handlers.embedding_errors import embedder_of
from services.memory.handlers.ports import HandlerPorts

PASSAGES_REMOVED_AT_ONCE = 200
ATTACHED_MAX = 100


class ArchiveHandlers:
    """The handlers of commands to archives."""

    def __init__(self, ports: HandlerPorts) -> None:
        self.clock = ports.clock
        self.archives = ports.archives
        self.embedders = ports.embedders

    def table(self) -> Mapping[type[Command], Handler]:
        """The handler of each command."""
        return {
            CreateArchive: self.create_archive,
            UpdateArchive: self.update_archive,
            DeleteArchive: self.delete_archive,
            AttachArchive: self.attach_archive,
            DetachArchive: self.detach_archive,
            EmptyArchive: self.empty_archive,
        }

    async def create_archive(self, command: CreateArchive, work: UnitOfWork) -> Accepted | Rejected:
        """Make an archive, unless there is no such model as is to embed its passages."""
        org, actor = work.context.org, work.context.actor
        embedder = embedder_of(self.embedders, command.embedding_config, org)
        if isinstance(embedder, Rejected):
            return embedder
        archive = await work.load_new(Archive, command.archive_id)
        full = too_many_archives(await self.archives.archive_count(org))
        return full or archive.create(command, at=self.clock.now(), actor=actor) or Accepted()

    async def update_archive(self, command: UpdateArchive, work: UnitOfWork) -> Accepted | Rejected:
        """Change the given fields of an archive."""
        archive = await work.load(Archive, command.archive_id)
        at, actor = self.clock.now(), work.context.actor
        return archive.update(command.changes, at=at, actor=actor) or Accepted()

    async def delete_archive(self, command: DeleteArchive, work: UnitOfWork) -> Accepted | Rejected:
        """Remove an archive, or take it from its agent where others have it, too."""
        archive = await work.load(Archive, command.archive_id)
        at, owner = self.clock.now(), command.unless_attached
        if owner and archive.attached_to_others(owner):
            return archive.detach(owner, at=at) or Accepted()
        return archive.delete(at=at) or Accepted()

    async def attach_archive(self, command: AttachArchive, work: UnitOfWork) -> Accepted | Rejected:
        """Let an agent of the organisation search an archive of it."""
        org, agent_id = work.context.org, command.agent_id
        agent = await self.archives.agent(org, agent_id)
        if agent is None:
            return missing_agent(agent_id)
        if len(agent.archive_ids) >= ATTACHED_MAX and command.archive_id not in agent.archive_ids:
            reason = (
                f"Agent '{agent_id}' has {ATTACHED_MAX} archives, and no agent may have more:"
                " detach one of them first"
            )
            return Rejected(code=UNPROCESSABLE, reason=reason)
        archive = await work.load(Archive, command.archive_id)
        return archive.attach(agent_id, at=self.clock.now()) or Accepted()

    async def detach_archive(self, command: DetachArchive, work: UnitOfWork) -> Accepted | Rejected:
        """Let an agent no longer search an archive."""
        archive = await work.load(Archive, command.archive_id)
        return archive.detach(command.agent_id, at=self.clock.now()) or Accepted()

    async def empty_archive(self, command: EmptyArchive, work: UnitOfWork) -> Accepted | Rejected:
        """Remove the next passages of a deleted archive; the result says how many these were."""
        archive = await work.load(Archive, command.archive_id)
        if not archive.deleted:
            reason = f"Archive '{archive.id}' is not deleted, so its passages stay"
            return Rejected(code=CONFLICT, reason=reason)
        at = self.clock.now()
        left = await self.archives.passages_left(
            work.context.org, archive.id, PASSAGES_REMOVED_AT_ONCE
        )
        for passage_id in left:
            passage = await work.load(Passage, passage_id)
            passage.delete(at=at)
        if not left:
            archive.empty(at=at)
        return Accepted(result={"removed": len(left)})
