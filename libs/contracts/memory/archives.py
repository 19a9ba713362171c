"""The language of archival memory: archives, the passages in them, and how these are found."""

from __future__ import annotations

from datetime import datetime
from operator import not_
from typing import ClassVar, Literal

from pydantic import Field

from libs.contracts.bus_messages import Command, Event, JsonObject, Value
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta.archive_requests import PASSAGES_MAX
from libs.contracts.letta.model_configs import EmbeddingConfig
from libs.contracts.memory.blocks import SERVICE, Cause

# One command, and so one commit.
PASSAGES_INSERTED_MAX = PASSAGES_MAX
PASSAGES_DELETED_MAX = 1_000
PASSAGES_FOUND_MAX = 100
# Who sends what a model has to embed waits so long for the answer: longer than an endpoint may
# take, so that it is heard why there was none.
EMBEDDING_SECONDS_MAX = 30.0


def own_archive_id(agent_id: str, number: int = 0) -> str:
    """The id of the archive that an agent's first insert makes; after that is gone, of the next."""
    return derived_id("archive", agent_id, *([str(number)] if number else []))


class Embedding(Value):
    """The meaning of a text as a vector: base64 of float16, little-endian, of unit length; and the
    handle of the model that it is by."""

    model: str
    dimensions: int
    vector: str


class NewPassage(Value):
    """A text to be put into an archive; `created_at` is given where it is older than its insert."""

    id: str
    text: str
    tags: list[str] | None = None
    metadata: JsonObject = Field(default_factory=dict)
    created_at: datetime | None = None


class ArchiveCommand(Command, service=SERVICE):
    """A command about one archive."""

    archive_id: str

    @property
    def target(self) -> str:
        return self.archive_id


class CreateArchive(ArchiveCommand, topic="archive.create"):
    """Make an archive; without `embedding_config` its passages are embedded by the default."""

    name: str
    description: str | None = None
    embedding_config: EmbeddingConfig | None = None
    metadata: JsonObject | None = None


class UpdateArchive(ArchiveCommand, topic="archive.update"):
    """Give an archive another name, description or metadata."""

    changes: JsonObject


class DeleteArchive(ArchiveCommand, topic="archive.delete"):
    """Remove an archive with its passages; with `unless_attached` only if no other agent than this
    one has it."""

    unless_attached: str = Field(default="", exclude_if=not_)


class AttachArchive(ArchiveCommand, topic="archive.attach"):
    """Let an agent search an archive."""

    agent_id: str


class DetachArchive(ArchiveCommand, topic="archive.detach"):
    """Let an agent no longer search an archive."""

    agent_id: str


class EmptyArchive(ArchiveCommand, topic="archive.empty"):
    """Remove the next of the passages that a deleted archive has left."""


class InsertPassages(Command, service=SERVICE, topic="passages.insert"):
    """Embed texts and put them into an archive, all or none: into the given one, or into that of an
    agent, which is made if it has none."""

    passages: list[NewPassage]
    archive_id: str = ""
    agent_id: str = ""
    cause: Cause | None = None

    @property
    def target(self) -> str:
        return self.passages[0].id


class DeletePassages(Command, service=SERVICE, topic="passages.delete"):
    """Remove passages, all or none, of the given archive or of any that an agent has."""

    passage_ids: list[str]
    archive_id: str = ""
    agent_id: str = ""

    @property
    def target(self) -> str:
        return self.passage_ids[0]


class FoundPassage(Value):
    """A passage that a search found: `fields` are those of the V1 passage, without its vector. The
    higher its `score`, the better it fits, within one search."""

    id: str
    collection_id: str
    score: float
    fields: JsonObject


class FoundPassages(Value):
    """The result of a search, the best first."""

    passages: list[FoundPassage]


class SearchPassages(Command, service=SERVICE, topic="passages.search"):
    """Find the passages that are nearest to a query in meaning and words: in the given collections
    (archives or folders), else in the archives of an agent, else in all archives.

    Answered with `FoundPassages`. Without a query the newest come first.
    """

    keeps_reply: ClassVar[bool] = False
    asker: str
    query: str = ""
    collection_ids: list[str] = Field(default_factory=list)
    agent_id: str = ""
    tags: list[str] = Field(default_factory=list)
    tag_match: Literal["any", "all"] = "any"
    after: datetime | None = None
    before: datetime | None = None
    file_ids: list[str] = Field(default_factory=list)
    limit: int = 10

    @property
    def target(self) -> str:
        return self.asker


class ArchiveCreated(Event, service=SERVICE, topic="archive.created"):
    """An archive exists; `agent_id` is the agent whose own it is, empty for none."""

    name: str
    description: str | None = None
    embedding_config: EmbeddingConfig | None = None
    metadata: JsonObject | None = None
    agent_id: str = ""
    created_by_id: str | None = None


class ArchiveChanged(Event, service=SERVICE, topic="archive.changed"):
    """Fields of an archive have new values."""

    changes: JsonObject
    changed_by_id: str | None = None


class ArchiveAttached(Event, service=SERVICE, topic="archive.attached"):
    """An agent may search an archive."""

    agent_id: str


class ArchiveDetached(Event, service=SERVICE, topic="archive.detached"):
    """An agent may no longer search an archive."""

    agent_id: str


class ArchiveDeleted(Event, service=SERVICE, topic="archive.deleted"):
    """An archive is gone, and nobody sees its passages any more; they are removed bit by bit."""


class ArchiveEmptied(Event, service=SERVICE, topic="archive.emptied"):
    """No passage of a deleted archive is left."""


class PassageCreated(Event, service=SERVICE, topic="passage.created"):
    """A text is in an archive, with its embedding, so that nothing is ever embedded again to read
    it; `created_at` is the time that its client gave it."""

    archive_id: str
    text: str
    tags: list[str] | None = None
    metadata: JsonObject = Field(default_factory=dict)
    created_at: datetime | None = None
    created_by_id: str | None = None
    embedding: Embedding
    cause: Cause | None = None


class PassageDeleted(Event, service=SERVICE, topic="passage.deleted"):
    """A text is no longer in its archive."""

    archive_id: str
