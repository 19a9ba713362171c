"""Passages of archives and chunks of files as the rows that are searched."""

from __future__ import annotations

from datetime import datetime

from libs.contracts.bus_messages import Event, JsonObject
from libs.contracts.letta.agent_state import timestamp
from libs.contracts.memory.archives import PassageCreated, PassageDeleted
from libs.embeddings.vector_encoding import halfvec, unpack_vector
from libs.eventstore.read_model_rows import RowWrites
from services.memory.projections.tables import PASSAGES


def project_passage(event: Event, org: str, rows: RowWrites) -> None:
    """Passages of archives come and go."""
    match event:
        case PassageCreated():
            created_at = event.created_at or event.timestamp
            fields: JsonObject = {
                "created_by_id": event.created_by_id,
                "last_updated_by_id": event.created_by_id,
                "created_at": timestamp(created_at),
                "updated_at": timestamp(event.timestamp),
                "is_deleted": False,
                "organization_id": org,
                "archive_id": event.archive_id,
                "source_id": None,
                "file_id": None,
                "file_name": None,
                "metadata": event.metadata,
                "tags": None if event.tags is None else [*event.tags],
                "id": event.originator_id,
                "text": event.text,
            }
            row = passage_row(
                fields,
                created_at=created_at,
                version=event.originator_version,
                embedding_model=event.embedding.model,
                embedding=event.embedding.vector,
            )
            rows.upsert(PASSAGES, row)
        case PassageDeleted():
            rows.delete(PASSAGES, "id", event.originator_id)


def passage_row(
    fields: JsonObject,
    *,
    created_at: datetime,
    version: int,
    embedding_model: str | None,
    embedding: str | None,
) -> JsonObject:
    """The row of a passage with these V1 fields. Its vector comes packed, as in events, or is None
    for what was never embedded. A chunk of a file belongs to the file and its folder."""
    fields = dict(fields)
    metadata = fields.pop("metadata", None)
    return {
        "id": fields["id"],
        "org": fields["organization_id"],
        "collection_id": fields["archive_id"] or fields["source_id"],
        "owner_id": fields["file_id"] or fields["id"],
        "file_id": fields["file_id"],
        "created_at": created_at.isoformat(),
        "version": version,
        "text": str(fields["text"]).replace("\x00", ""),
        "tags": fields["tags"] or [],
        "fields": fields,
        "metadata": metadata,
        **embedding_columns(embedding_model, embedding),
    }


def embedding_columns(model: str | None, embedding: str | None) -> JsonObject:
    """The columns of a vector; to embed a passage anew is to patch them."""
    vector = None if embedding is None else halfvec(unpack_vector(embedding))
    return {"embedding_model": model, "embedding": vector}
