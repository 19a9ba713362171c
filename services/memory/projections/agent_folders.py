"""Folders of agents and their open files as rows."""

from __future__ import annotations

from libs.contracts.bus_messages import Event
from libs.contracts.memory.agent_folders import (
    FilesClosed,
    FilesOpened,
    FolderAttached,
    FolderDetached,
)
from libs.eventstore.read_model_rows import RowWrites
from services.memory.projections.tables import AGENT_FOLDERS, OPEN_FILES


def project_agent_folders(event: Event, org: str, rows: RowWrites) -> None:
    """Write an event's changes to the rows of an agent's folders, one for each folder and each open
    file; deleted by the two names that a key is made of."""
    owner = event.originator_id
    match event:
        case FolderAttached():
            rows.upsert(
                AGENT_FOLDERS,
                {
                    "id": row_id(owner, event.folder_id),
                    "owner_id": owner,
                    "org": org,
                    "agent_id": event.agent_id,
                    "folder_id": event.folder_id,
                    "created_at": event.timestamp.isoformat(),
                },
            )
        case FolderDetached():
            rows.delete(AGENT_FOLDERS, "id", row_id(owner, event.folder_id))
            drop(owner, event.closed, rows)
        case FilesOpened():
            drop(owner, event.closed, rows)
            for opened in event.opened:
                rows.upsert(
                    OPEN_FILES,
                    {
                        "id": row_id(owner, opened.file_id),
                        "owner_id": owner,
                        "org": org,
                        "agent_id": event.agent_id,
                        "file_id": opened.file_id,
                        "first_line": opened.first_line,
                        "last_line": opened.last_line,
                        "opened_at": opened.at.isoformat(),
                    },
                )
        case FilesClosed():
            drop(owner, event.closed, rows)


def drop(owner: str, file_ids: list[str], rows: RowWrites) -> None:
    """Remove the rows of files that are not open any more."""
    for file_id in file_ids:
        rows.delete(OPEN_FILES, "id", row_id(owner, file_id))


def row_id(owner: str, name: str) -> str:
    """The key of the row of a folder or a file of one agent."""
    return f"{owner}/{name}"
