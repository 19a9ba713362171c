"""Folders as rows."""

from __future__ import annotations

from libs.contracts.bus_messages import Event, JsonObject
from libs.contracts.letta.folders import folder_state
from libs.contracts.memory.folders import FolderChanged, FolderCreated, FolderDeleted
from libs.eventstore.read_model_rows import RowWrites
from services.memory.projections.tables import FOLDER_REEMBEDDINGS, FOLDERS


def project_folder(event: Event, org: str, rows: RowWrites) -> None:
    """Write an event's changes to the row of a folder."""
    at = event.timestamp.isoformat()
    match event:
        case FolderCreated():
            state = folder_state(event.folder)
            rows.upsert(
                FOLDERS,
                {
                    "id": event.originator_id,
                    "org": org,
                    "created_at": at,
                    "updated_at": at,
                    "name": event.folder.name,
                    "metadata": state.pop("metadata"),
                    "fields": state,
                },
            )
        case FolderChanged(changes=changes):
            fields: JsonObject = {
                "id": event.originator_id,
                "updated_at": at,
                "fields": {name: value for name, value in changes.items() if name != "metadata"},
                **{name: changes[name] for name in ("name", "metadata") if name in changes},
            }
            rows.patch(FOLDERS, fields)
        case FolderDeleted():
            rows.delete(FOLDERS, "id", event.originator_id)
            rows.delete(FOLDER_REEMBEDDINGS, "id", event.originator_id)
