"""Commands about the passages of archives: embed, load, decide, save, reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from libs.bus.command_dispatcher import Handler
from libs.contracts.bus_messages import UNPROCESSABLE, Accepted, Command, Json, Rejected
from libs.contracts.letta.model_configs import EmbeddingConfig
from libs.contracts.memory.archives import (
    PASSAGES_DELETED_MAX,
    DeletePassages,
    Embedding,
    InsertPassages,
)
from libs.embeddings.ports import EmbeddingFailed
from libs.embeddings.vector_encoding import pack_vector
from libs.eventstore.ports import VersionConflict
from libs.eventstore.unit_of_work import UnitOfWork
from services.memory.adapters.archive_queries import RememberingAgent
from services.memory.domain.archive import (
    OWN_ARCHIVES_MAX,
    Archive,
    missing_agent,
    missing_archive,
    own_archive_ids,
    too_many_archives,
)
from services.memory.domain.passage import Passage, missing_passage, unfit_passages
from services.memory.handlers.embedding_errors import not_embedded
from services.memory.handlers.ports import HandlerPorts

PASSAGES_PER_ARCHIVE_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class Place:
    """Where passages go: into an archive, or for want of one into an agent's own, which is made."""

    archive_id: str
    config: EmbeddingConfig | None
    agent_id: str = ""
    agent_name: str = ""


class PassageHandlers:
    """The handlers of commands to passages."""

    def __init__(self, ports: HandlerPorts) -> None:
        self.clock = ports.clock
        self.archives = ports.archives
        self.embedders = ports.embedders
        self.locks = ports.locks
        self.counts = ports.counts

    def table(self) -> Mapping[type[Command], Handler]:
        """The handler of each command."""
        return {
            InsertPassages: self.insert_passages,
            DeletePassages: self.delete_passages,
        }

    async def insert_passages(
        self, command: InsertPassages, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Put texts into an archive. They are embedded before anything is decided, and nobody waits
        for that: an archive is held only while the decision about it is made."""
        refused = unfit_passages(command.passages)
        place = refused or await self.place_of(command, work.context.org)
        if isinstance(place, Rejected):
            return place
        try:
            embeddings = await self.embed(
                [passage.text for passage in command.passages], place.config, work.context.org
            )
        except EmbeddingFailed as failed:
            return not_embedded(failed)
        await work.hold(self.locks.hold(place.archive_id))
        archive = await self.open_archive(place, work)
        if isinstance(archive, Rejected):
            return archive
        if archive.state.embedding_config != place.config:
            raise VersionConflict(archive.id)  # it is embedded by another model now: once more
        full = await self.full(archive, command, work)
        return full or await self.insert(command, archive, embeddings, work)

    async def place_of(self, command: InsertPassages, org: str) -> Place | Rejected:
        """Where the texts of a command go."""
        if command.archive_id:
            for found in await self.archives.collections(org, [command.archive_id]):
                return Place(found.id, found.embedding_config)
            return missing_archive(command.archive_id)
        agent = await self.archives.agent(org, command.agent_id)
        if agent is None:
            return missing_agent(command.agent_id)
        return await self.place_of_agent(command.agent_id, agent, org)

    async def place_of_agent(
        self, agent_id: str, agent: RememberingAgent, org: str
    ) -> Place | Rejected:
        """The own archive of an agent, else the first that it has, else one to be made."""
        if not agent.archive_ids:
            first = own_archive_ids(agent_id)[0]
            return Place(first, agent.embedding_config, agent_id, agent.name)
        own = own_archive_ids(agent_id)
        chosen = next(
            (archive for archive in agent.archive_ids if archive in own), agent.archive_ids[0]
        )
        for found in await self.archives.collections(org, [chosen]):
            return Place(found.id, found.embedding_config)
        return missing_archive(chosen)

    async def embed(
        self, texts: Sequence[str], config: EmbeddingConfig | None, org: str
    ) -> list[Embedding]:
        """The texts as vectors. Raises EmbeddingFailed."""
        embedder = self.embedders.for_config(config, org)
        vectors = await embedder.embed(texts)
        return [
            Embedding(model=embedder.model, dimensions=len(vector), vector=pack_vector(vector))
            for vector in vectors
        ]

    async def open_archive(self, place: Place, work: UnitOfWork) -> Archive | Rejected:
        """The archive that passages go into; an agent's own is made if there is none. Whoever wants
        to make it at the same time holds the same lock, or loses the race and decides again."""
        if not place.agent_id:
            archive = await work.load(Archive, place.archive_id)
            return archive if archive.present else missing_archive(place.archive_id)
        for archive_id in own_archive_ids(place.agent_id):
            archive = await work.load(Archive, archive_id)
            if archive.present and place.agent_id in archive.state.agent_ids:
                return archive
            if not archive.exists:
                full = too_many_archives(await self.archives.archive_count(work.context.org))
                if full:
                    return full
                archive.create_for(
                    place.agent_id,
                    place.agent_name,
                    place.config,
                    at=self.clock.now(),
                    actor=work.context.actor,
                )
                return archive
        reason = (
            f"{OWN_ARCHIVES_MAX} archives were made for agent '{place.agent_id}' and taken from it:"
            " attach one to it, and it remembers in that"
        )
        return Rejected(code=UNPROCESSABLE, reason=reason)

    async def full(
        self, archive: Archive, command: InsertPassages, work: UnitOfWork
    ) -> Rejected | None:
        """The refusal of passages for which an archive has no room."""
        there = await self.counts.passages_of(work.context.org, archive.id)
        fresh = len(command.passages)
        if there + fresh <= PASSAGES_PER_ARCHIVE_MAX:
            work.after_commit.append(lambda _: self.counts.count_inserted(archive.id, fresh))
            return None
        reason = (
            f"Archive '{archive.id}' has {there} passages, and no archive may have more than"
            f" {PASSAGES_PER_ARCHIVE_MAX}: delete some, or use another archive"
        )
        return Rejected(code=UNPROCESSABLE, reason=reason)

    async def insert(
        self,
        command: InsertPassages,
        archive: Archive,
        embeddings: Sequence[Embedding],
        work: UnitOfWork,
    ) -> Accepted | Rejected:
        """Make the passages, all or none. Each is created a microsecond after the one before, so
        that lists have them in their order."""
        now, actor = self.clock.now(), work.context.actor
        pairs = zip(command.passages, embeddings, strict=True)
        for number, (wanted, embedding) in enumerate(pairs):
            at = now + timedelta(microseconds=number)
            passage = await work.load_new(Passage, wanted.id)
            refused = passage.create(
                wanted, archive.id, embedding, at=at, actor=actor, cause=command.cause
            )
            if refused:
                return refused
        ids: list[Json] = [passage.id for passage in command.passages]
        return Accepted(result={"archive_id": archive.id, "passage_ids": ids})

    async def delete_passages(
        self, command: DeletePassages, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Remove passages, all or none: those that are elsewhere are not found."""
        if len(command.passage_ids) > PASSAGES_DELETED_MAX:
            reason = f"At most {PASSAGES_DELETED_MAX} passages are deleted at once: send fewer"
            return Rejected(code=UNPROCESSABLE, reason=reason)
        allowed = await self.find_archive_ids(command, work.context.org)
        if isinstance(allowed, Rejected):
            return allowed
        at = self.clock.now()
        for passage_id in dict.fromkeys(command.passage_ids):
            passage = await work.load(Passage, passage_id)
            there = passage.present and passage.state.archive_id in allowed
            refused = passage.delete(at=at) if there else missing_passage(passage_id)
            if refused:
                return refused
        return Accepted()

    async def find_archive_ids(self, command: DeletePassages, org: str) -> set[str] | Rejected:
        """Return the ids of the archives whose passages a command may delete: the one that it
        names, or those attached to its agent. A rejection if there is no such archive or agent."""
        if command.archive_id:
            found = await self.archives.collections(org, [command.archive_id])
            return {archive.id for archive in found} or missing_archive(command.archive_id)
        agent = await self.archives.agent(org, command.agent_id)
        return missing_agent(command.agent_id) if agent is None else {*agent.archive_ids}
