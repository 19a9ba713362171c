"""One example of each message about archives and passages."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from libs.contracts.bus_messages import Command, Event
from libs.contracts.letta.model_configs import EmbeddingConfig
from libs.contracts.memory.archives import (
    ArchiveAttached,
    ArchiveChanged,
    ArchiveCreated,
    ArchiveDeleted,
    ArchiveDetached,
    ArchiveEmptied,
    AttachArchive,
    CreateArchive,
    DeleteArchive,
    DeletePassages,
    DetachArchive,
    Embedding,
    EmptyArchive,
    InsertPassages,
    NewPassage,
    PassageCreated,
    PassageDeleted,
    SearchPassages,
    UpdateArchive,
)
from libs.contracts.memory.blocks import Cause
from libs.contracts.memory.reembedding import (
    ArchiveEmbeddingChanged,
    ArchiveReembedded,
    ChangeArchiveEmbedding,
    PassageEmbedded,
    ReembedPassages,
)

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
AGENT = "agent-11111111-1111-4111-8111-111111111111"
ARCHIVE = "archive-12121212-1212-4212-8212-121212121212"
PASSAGE = "passage-13131313-1313-4313-8313-131313131313"
SEARCH = "search-14141414-1414-4414-8414-141414141414"
CONFIG = EmbeddingConfig(
    embedding_endpoint_type="openai",
    embedding_model="text-embedding-3-small",
    embedding_dim=4,
    handle="openai/text-embedding-3-small",
)
VECTOR = Embedding(model="openai/text-embedding-3-small", dimensions=4, vector="ADwAAAAAAAA=")
CAUSE = Cause(agent_id=AGENT, run_id="run-1", tool_call_id="call_1", tool="archival_memory_insert")
TEXT = "Ada walks in the Alps"

ARCHIVE_COMMANDS: list[Command] = [
    CreateArchive(
        archive_id=ARCHIVE,
        name="Facts",
        description="What we know",
        embedding_config=CONFIG,
        metadata={"team": "blue"},
    ),
    UpdateArchive(archive_id=ARCHIVE, changes={"name": "More facts"}),
    DeleteArchive(archive_id=ARCHIVE),
    AttachArchive(archive_id=ARCHIVE, agent_id=AGENT),
    DetachArchive(archive_id=ARCHIVE, agent_id=AGENT),
    EmptyArchive(archive_id=ARCHIVE),
    InsertPassages(
        passages=[NewPassage(id=PASSAGE, text=TEXT, tags=["hobby"])], agent_id=AGENT, cause=CAUSE
    ),
    DeletePassages(passage_ids=[PASSAGE], archive_id=ARCHIVE),
    ChangeArchiveEmbedding(archive_id=ARCHIVE, embedding_config=CONFIG),
    ReembedPassages(archive_id=ARCHIVE),
    SearchPassages(asker=SEARCH, query="mountains", agent_id=AGENT, tags=["hobby"], limit=5),
]


def of_archive(kind: type[Event], **fields: Any) -> Event:
    return kind(originator_id=ARCHIVE, originator_version=1, timestamp=AT, **fields)


def of_passage(kind: type[Event], **fields: Any) -> Event:
    return kind(originator_id=PASSAGE, originator_version=1, timestamp=AT, **fields)


ARCHIVE_EVENTS: list[Event] = [
    of_archive(
        ArchiveCreated,
        name="Facts",
        description="What we know",
        embedding_config=CONFIG,
        metadata={"team": "blue"},
        agent_id=AGENT,
        created_by_id="user-1",
    ),
    of_archive(ArchiveChanged, changes={"name": "More facts"}, changed_by_id="user-1"),
    of_archive(ArchiveAttached, agent_id="agent-2"),
    of_archive(ArchiveDetached, agent_id=AGENT),
    of_archive(
        ArchiveEmbeddingChanged,
        embedding_config=CONFIG,
        model="openai/text-embedding-3-small",
        dimensions=4,
        changed_by_id="user-1",
    ),
    of_archive(ArchiveReembedded),
    of_archive(ArchiveDeleted),
    of_archive(ArchiveEmptied),
    of_passage(
        PassageCreated,
        archive_id=ARCHIVE,
        text=TEXT,
        tags=["hobby"],
        metadata={"source": "form"},
        created_at=AT,
        created_by_id="user-1",
        embedding=VECTOR,
        cause=CAUSE,
    ),
    of_passage(PassageEmbedded, archive_id=ARCHIVE, embedding=VECTOR),
    of_passage(PassageDeleted, archive_id=ARCHIVE),
]
