"""Passages of archives and chunks of files as the rows that are searched."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from libs.contracts.bus_messages import JsonObject
from libs.embeddings.vector_text import halfvec, unpacked


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
