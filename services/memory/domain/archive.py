"""An archive: passages that the agents to which it is attached search."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel

from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import (
    CONFLICT,
    NOT_FOUND,
    UNPROCESSABLE,
    Event,
    JsonObject,
    Rejected,
)
from libs.contracts.letta.model_configs import EmbeddingConfig
from libs.contracts.memory.archives import (
    ArchiveAttached,
    ArchiveChanged,
    ArchiveCreated,
    ArchiveDeleted,
    ArchiveDetached,
    ArchiveEmptied,
    CreateArchive,
    own_archive_id,
)
from libs.contracts.memory.reembedding import ArchiveEmbeddingChanged, ArchiveReembedded

AGENTS_MAX = 1_000
ARCHIVES_MAX = 100_000  # of an organisation: an agent may have one of its own
# An agent's own archive may be deleted or detached; then its next insert makes another.
OWN_ARCHIVES_MAX = 50
# No insert takes as long: after it no passage is on its way to a deleted archive.
SETTLED_SECONDS = 120.0
ARCHIVE_NAME_CHARS_MAX = 500
CHANGEABLE = ("name", "description", "metadata")


class ArchiveState(BaseModel):
    """The state of an archive; `agent_ids` are those that it is attached to, in this order."""

    name: str = ""
    description: str | None = None
    metadata: JsonObject | None = None
    embedding_config: EmbeddingConfig | None = None
    agent_ids: list[str] = []
    deleted_at: datetime | None = None
    emptied: bool = False
    reembedding: bool = False


class Archive(Aggregate[ArchiveState]):
    """One archive."""

    State = ArchiveState
    begins_with = (ArchiveCreated,)

    @property
    def deleted(self) -> bool:
        """Whether it has stopped existing."""
        return self.state.deleted_at is not None

    @property
    def present(self) -> bool:
        """Whether the archive exists and is not deleted."""
        return self.exists and not self.deleted

    def create(self, command: CreateArchive, *, at: datetime, actor: str) -> Rejected | None:
        """Begin to exist, attached to nobody."""
        if self.exists:
            return Rejected(code=CONFLICT, reason=f"Archive {self.id} exists already")
        problem = unfit_name(command.name)
        if problem:
            return problem
        self.record(
            ArchiveCreated,
            at=at,
            name=command.name,
            description=command.description,
            embedding_config=command.embedding_config,
            metadata=command.metadata,
            created_by_id=actor,
        )
        return None

    def create_for(
        self,
        agent_id: str,
        agent_name: str,
        config: EmbeddingConfig | None,
        *,
        at: datetime,
        actor: str,
    ) -> None:
        """Begin to exist as an agent's own, attached to it."""
        assert not self.exists, "an agent's own archive is looked for before it is made"
        self.record(
            ArchiveCreated,
            at=at,
            name=f"{agent_name[: ARCHIVE_NAME_CHARS_MAX - 20]}'s Archive",
            description="What the agent remembers",
            embedding_config=config,
            agent_id=agent_id,
            created_by_id=actor,
        )

    def update(self, changes: JsonObject, *, at: datetime, actor: str) -> Rejected | None:
        """Change fields; changing nothing is not an event."""
        if not self.present:
            return missing_archive(self.id)
        name = changes.get("name")
        problem = unfit_name(str(name)) if name is not None else None
        if problem:
            return problem
        now = self.state.model_dump(mode="json", include={*CHANGEABLE})
        changed = {
            field: changes[field]
            for field in CHANGEABLE
            if field in changes and changes[field] != now[field]
        }
        if changed:
            self.record(ArchiveChanged, at=at, changes=changed, changed_by_id=actor)
        return None

    def attach(self, agent_id: str, *, at: datetime) -> Rejected | None:
        """Be searched by an agent; twice is once."""
        if not self.present:
            return missing_archive(self.id)
        if agent_id in self.state.agent_ids:
            return None
        if len(self.state.agent_ids) >= AGENTS_MAX:
            reason = (
                f"Archive '{self.id}' is attached to {AGENTS_MAX} agents, and no archive may have"
                " more: detach it from one, or make another archive"
            )
            return Rejected(code=UNPROCESSABLE, reason=reason)
        self.record(ArchiveAttached, at=at, agent_id=agent_id)
        return None

    def detach(self, agent_id: str, *, at: datetime) -> Rejected | None:
        """Be no longer searched by an agent; twice is once."""
        if not self.present:
            return missing_archive(self.id)
        if agent_id in self.state.agent_ids:
            self.record(ArchiveDetached, at=at, agent_id=agent_id)
        return None

    def delete(self, *, at: datetime) -> Rejected | None:
        """Delete the archive, if it exists."""
        if not self.present:
            return missing_archive(self.id)
        self.record(ArchiveDeleted, at=at)
        return None

    def attached_to_others(self, agent_id: str) -> bool:
        """Whether an agent besides this one has it."""
        return any(other != agent_id for other in self.state.agent_ids)

    def empty(self, *, at: datetime) -> None:
        """Have no passage left; too soon after its end this is not certain, and nothing happens."""
        ended = self.state.deleted_at
        if ended and not self.state.emptied and (at - ended).total_seconds() >= SETTLED_SECONDS:
            self.record(ArchiveEmptied, at=at)

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        match event:
            case ArchiveCreated():
                self.state.name = event.name
                self.state.description = event.description
                self.state.metadata = event.metadata
                self.state.embedding_config = event.embedding_config
                self.state.agent_ids = [event.agent_id] if event.agent_id else []
            case ArchiveChanged():
                for name in CHANGEABLE:
                    if name in event.changes:
                        setattr(self.state, name, event.changes[name])
            case ArchiveAttached():
                self.state.agent_ids = [*self.state.agent_ids, event.agent_id]
            case ArchiveDetached():
                others = [other for other in self.state.agent_ids if other != event.agent_id]
                self.state.agent_ids = others
            case ArchiveDeleted():
                self.state.deleted_at = event.timestamp
                self.state.agent_ids = []
            case ArchiveEmptied():
                self.state.emptied = True
            case ArchiveEmbeddingChanged():
                self.state.embedding_config = event.embedding_config
                self.state.reembedding = True
            case ArchiveReembedded():
                self.state.reembedding = False


def own_archive_ids(agent_id: str) -> list[str]:
    """The ids that an agent's own archives may have, one after the other."""
    return [own_archive_id(agent_id, number) for number in range(OWN_ARCHIVES_MAX)]


def too_many_archives(count: int) -> Rejected | None:
    """The refusal of one more archive, if an organisation has as many as it may."""
    if count < ARCHIVES_MAX:
        return None
    reason = (
        f"This organisation has {count} archives, and may have at most {ARCHIVES_MAX}: delete some,"
        " or attach one to several agents"
    )
    return Rejected(code=UNPROCESSABLE, reason=reason)


def missing_archive(archive_id: str) -> Rejected:
    """The refusal for an archive that is not there."""
    return Rejected(code=NOT_FOUND, reason=f"Archive with id '{archive_id}' not found")


def missing_agent(agent_id: str) -> Rejected:
    """The refusal for an agent that is not there."""
    return Rejected(code=NOT_FOUND, reason=f"Agent with id '{agent_id}' not found")


def unfit_name(name: str) -> Rejected | None:
    """Why an archive cannot be called so, if so."""
    if not name.strip():
        return Rejected(code=UNPROCESSABLE, reason="`name` must not be empty: give the archive one")
    if len(name) > ARCHIVE_NAME_CHARS_MAX:
        reason = f"`name` may have at most {ARCHIVE_NAME_CHARS_MAX} characters: shorten it"
        return Rejected(code=UNPROCESSABLE, reason=reason)
    return None
