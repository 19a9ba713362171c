"""An archive that gets another embedding model, and what becomes of its passages."""

from __future__ import annotations

from datetime import datetime

from libs.contracts.bus_messages import Rejected
from libs.contracts.letta.model_configs import EmbeddingConfig
from libs.contracts.memory.archives import Embedding
from libs.contracts.memory.reembedding import (
    ArchiveEmbeddingChanged,
    ArchiveReembedded,
    PassageEmbedded,
)
from services.memory.domain.archive import Archive, missing_archive
from services.memory.domain.passage import Passage


def change_embedding(
    archive: Archive,
    config: EmbeddingConfig | None,
    *,
    model: str,
    dimensions: int,
    at: datetime,
    actor: str,
) -> Rejected | None:
    """Embed an archive by another model from now on; by the same one is not an event."""
    if not archive.present:
        return missing_archive(archive.id)
    if archive.state.embedding_config != config:
        archive.record(
            ArchiveEmbeddingChanged,
            at=at,
            embedding_config=config,
            previous_config=archive.state.embedding_config,
            model=model,
            dimensions=dimensions,
            changed_by_id=actor,
        )
    return None


def embed_passage(passage: Passage, embedding: Embedding, *, at: datetime) -> None:
    """Give a passage the vector of another model, unless it was deleted in the meantime."""
    if passage.present:
        archive_id = passage.state.archive_id
        passage.record(PassageEmbedded, at=at, archive_id=archive_id, embedding=embedding)


def end_reembedding(archive: Archive, *, at: datetime) -> None:
    """Every passage has its vector; said once."""
    if archive.present and archive.state.reembedding:
        archive.record(ArchiveReembedded, at=at)
