"""Archives and folders that are embedded by another model, and their passages, as rows."""

from __future__ import annotations

from libs.contracts.bus_messages import Event, JsonObject
from libs.contracts.letta.agent_state import timestamp
from libs.contracts.letta.model_configs import EmbeddingConfig
from libs.contracts.memory.reembedding import (
    ArchiveEmbeddingChanged,
    ArchiveReembedded,
    FileChunksReembedded,
    FolderEmbeddingChanged,
    FolderReembedded,
    PassageEmbedded,
)
from libs.eventstore.read_model_rows import RowWrites
from services.memory.projections.passages import embedding_columns
from services.memory.projections.tables import (
    ARCHIVE_REEMBEDDINGS,
    ARCHIVES,
    FOLDER_REEMBEDDINGS,
    FOLDERS,
    PASSAGES,
)


def project_reembedding(event: Event, org: str, rows: RowWrites) -> None:
    """Write an event's changes to the rows of a change of model."""
    known: JsonObject = {"id": event.originator_id, "version": event.originator_version}
    match event:
        case ArchiveEmbeddingChanged():
            fields: JsonObject = {
                "embedding_config": plain(event.embedding_config),
                "last_updated_by_id": event.changed_by_id,
                "updated_at": timestamp(event.timestamp),
            }
            rows.patch(ARCHIVES, {**known, "fields": fields})
            rows.upsert(ARCHIVE_REEMBEDDINGS, row_of_reembedding(event, org))
        case FolderEmbeddingChanged():
            fields = {
                "embedding_config": plain(event.embedding_config),
                "last_updated_by_id": event.changed_by_id,
            }
            at = event.timestamp.isoformat()
            rows.patch(FOLDERS, {"id": event.originator_id, "updated_at": at, "fields": fields})
            rows.upsert(FOLDER_REEMBEDDINGS, row_of_reembedding(event, org))
        case FolderReembedded():
            rows.delete(FOLDER_REEMBEDDINGS, "id", event.originator_id)
        case FileChunksReembedded():
            for chunk in event.chunks:
                columns = embedding_columns(event.model, chunk.vector)
                version = event.originator_version
                rows.patch(PASSAGES, {"id": chunk.id, "version": version, **columns})
        case ArchiveReembedded():
            rows.patch(ARCHIVES, known)
            rows.delete(ARCHIVE_REEMBEDDINGS, "id", event.originator_id)
        case PassageEmbedded():
            one = event.embedding
            rows.patch(PASSAGES, {**known, **embedding_columns(one.model, one.vector)})


def row_of_reembedding(
    event: ArchiveEmbeddingChanged | FolderEmbeddingChanged, org: str
) -> JsonObject:
    """The row of what is being embedded anew."""
    return {
        "id": event.originator_id,
        "org": org,
        "model": event.model,
        "dimensions": event.dimensions,
        "previous_config": plain(event.previous_config),
        "started_at": event.timestamp.isoformat(),
    }


def plain(config: EmbeddingConfig | None) -> JsonObject | None:
    """A config as rows have it."""
    return None if config is None else config.model_dump(mode="json")
