"""Passages of archives and chunks of files as the rows that are searched."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from libs.contracts.bus_messages import Event, JsonObject
from libs.contracts.letta.agent_state import timestamp
from libs.contracts.memory.archives import PassageCreated, PassageDeleted
from libs.embeddings.vector_encoding import halfvec, unpacked
from libs.eventstore.read_model_rows import RowWrites
from services.memory.projections.tables import PASSAGES


def project_passage(event: Event, org: str, rows: RowWrites) -> None:
    """Passages of archives come and go."""
    match event:
        case PassageCreated():
            created_at = event.created_at or event.timestamp
            doc: JsonObject = {
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
                event.originator_id,
                org,
                collection_id=event.archive_id,
                created_at=created_at,
                version=event.originator_version,
                text=event.text,
                tags=event.tags,
                doc=doc,
                embedding_model=event.embedding.model,
                embedding=event.embedding.vector,
            )
            rows.upsert(PASSAGES, row)
        case PassageDeleted():
            rows.delete(PASSAGES, "id", event.originator_id)


def passage_row(
    passage_id: str,
    org: str,
    *,
    collection_id: str,
    created_at: datetime,
    version: int,
    text: str,
    tags: Sequence[str] | None,
    doc: JsonObject,
    embedding_model: str | None,
    embedding: str | None,
    file_id: str | None = None,
) -> JsonObject:
    """The row of a passage: `doc` as clients read it, without its vector, which comes packed, as in
    events, or is None for what was never embedded. A chunk of a file belongs to the file."""
    fields = dict(doc)
    metadata = fields.pop("metadata", None)
    return {
        "id": passage_id,
        "org": org,
        "collection_id": collection_id,
        "owner_id": file_id or passage_id,
        "file_id": file_id,
        "created_at": created_at.isoformat(),
        "version": version,
        "text": text.replace("\x00", ""),
        "tags": [*(tags or ())],
        "doc": fields,
        "metadata": metadata,
        **embedding_columns(embedding_model, embedding),
    }


def embedding_columns(model: str | None, embedding: str | None) -> JsonObject:
    """The columns of a vector; to embed a passage anew is to patch them."""
    vector = None if embedding is None else halfvec(unpacked(embedding))
    return {"embedding_model": model, "embedding": vector}
