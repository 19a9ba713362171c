"""Files of folders as rows, and their chunks as passages."""

from __future__ import annotations

from datetime import datetime, timedelta

from libs.contracts.bus_messages import Event, JsonObject
from libs.contracts.memory.files import (
    FileAdded,
    FileChunksEmbedded,
    FileCompleted,
    FileDelayed,
    FileDeleted,
    FileFailed,
    FileParsed,
)
from libs.eventstore.read_model_rows import RowWrites
from services.memory.projections.passages import passage_row
from services.memory.projections.tables import FILES, PASSAGES

type Progress = FileParsed | FileChunksEmbedded | FileDelayed | FileFailed | FileCompleted


def project_file(event: Event, org: str, rows: RowWrites) -> None:
    """Write an event's changes to the row of a file and to those of its chunks."""
    match event:
        case FileAdded():
            rows.upsert(FILES, row_of_added(event, org))
        case FileDeleted():
            rows.delete(FILES, "id", event.originator_id)
            rows.delete(PASSAGES, "owner_id", event.originator_id)
        case FileParsed() | FileChunksEmbedded() | FileDelayed() | FileFailed() | FileCompleted():
            at = event.timestamp.isoformat()
            row: JsonObject = {"id": event.originator_id, "updated_at": at, "due_at": at}
            rows.patch(FILES, {**row, **progress(event)})
            if isinstance(event, FileChunksEmbedded):
                write_chunks(event, org, rows)


def row_of_added(event: FileAdded, org: str) -> JsonObject:
    """The row of a file that was just uploaded."""
    at = event.timestamp.isoformat()
    return {
        "id": event.originator_id,
        "org": org,
        "folder_id": event.folder_id,
        "created_at": at,
        "updated_at": at,
        "due_at": at,
        "name": event.name,
        "original_name": event.original_name,
        "status": "parsing",
        "error_message": None,
        "file_type": event.file_type,
        "file_size": event.file_size,
        "text_id": None,
        "lines": None,
        "chars": None,
        "total_chunks": None,
        "chunks_embedded": None,
    }


def write_chunks(event: FileChunksEmbedded, org: str, rows: RowWrites) -> None:
    """Each chunk as a passage of the folder. They become a microsecond older one by one, so that
    lists have them in their order."""
    for number, chunk in enumerate(event.chunks):
        at = event.timestamp + timedelta(microseconds=number)
        fields: JsonObject = {
            "created_by_id": None,
            "last_updated_by_id": None,
            "created_at": moment(at),
            "updated_at": moment(at),
            "is_deleted": False,
            "organization_id": org,
            "archive_id": None,
            "source_id": event.folder_id,
            "file_id": event.originator_id,
            "file_name": event.file_name,
            "metadata": {},
            "tags": None,
            "id": chunk.id,
            "text": chunk.text,
        }
        row = passage_row(
            fields,
            created_at=at,
            version=event.originator_version,
            embedding_model=event.model,
            embedding=chunk.vector,
        )
        rows.upsert(PASSAGES, row)


def moment(at: datetime) -> str:
    """A time as V1 writes it."""
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def progress(event: Progress) -> JsonObject:
    """The columns that an event about the processing of a file changes."""
    match event:
        case FileParsed():
            return {
                "status": "embedding",
                "error_message": None,
                "text_id": event.text_id,
                "lines": event.lines,
                "chars": event.chars,
                "total_chunks": event.total_chunks,
                "chunks_embedded": 0,
            }
        case FileChunksEmbedded():
            embedded = event.first + len(event.chunks)
            return {"status": "embedding", "error_message": None, "chunks_embedded": embedded}
        case FileDelayed():
            due_at = event.due_at.isoformat()
            return {"status": "pending", "error_message": event.reason, "due_at": due_at}
        case FileFailed():
            return {"status": "error", "error_message": event.reason}
        case FileCompleted():
            return {"status": "completed", "error_message": None}
