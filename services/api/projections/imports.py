"""Imports as rows."""

from __future__ import annotations

from libs.contracts.api.imports import (
    ImportAbandoned,
    ImportCancelled,
    ImportCompleted,
    ImportDelayed,
    ImportEvent,
    ImportForgotten,
    ImportProgressed,
    ImportRequested,
    ImportUndone,
    ImportValidated,
)
from libs.contracts.bus_messages import JsonObject
from libs.eventstore.read_model_rows import RowWrites
from services.api.projections.tables import IMPORTS


def project_import(event: ImportEvent, org: str, rows: RowWrites) -> None:
    """Write the progress and the outcome of an import. One that has failed or was cancelled is
    shown so when nothing is left of what it has made."""
    at = event.timestamp.isoformat()
    if isinstance(event, ImportRequested):
        rows.upsert(IMPORTS, requested_row(event, org))
        return
    if isinstance(event, ImportForgotten):
        rows.delete(IMPORTS, "id", event.originator_id)
        return
    columns: JsonObject = {"id": event.originator_id, "updated_at": at}
    match event:
        case ImportValidated():
            columns |= {
                "status": "importing",
                "lines": event.counts.lines,
                "events": event.counts.events,
                "left_out": [entry.model_dump(mode="json") for entry in event.left_out],
            }
        case ImportProgressed():
            columns |= {"lines_done": event.done.lines, "events_done": event.done.events}
        case ImportDelayed():
            columns |= {"reason": event.reason}
        case ImportAbandoned():
            errors = [error.model_dump(mode="json") for error in event.errors]
            columns |= {"is_conflict": event.is_conflict}
            columns |= {"errors": [*errors], **end_columns("failed", event.undoes, at)}
        case ImportCancelled():
            columns |= end_columns("cancelled", event.undoes, at)
        case ImportUndone():
            columns |= {"status": event.status, "completed_at": at}
        case ImportCompleted():
            columns |= {
                "status": "completed",
                "completed_at": at,
                "agent_ids": [*event.agent_ids],
            }
            if event.left_out:
                columns["left_out"] = [entry.model_dump(mode="json") for entry in event.left_out]
    rows.patch(IMPORTS, columns)


def end_columns(status: str, undoes: bool, at: str) -> JsonObject:
    """The columns of an import that failed or was cancelled."""
    return {"status": "undoing"} if undoes else {"status": status, "completed_at": at}


def requested_row(event: ImportRequested, org: str) -> JsonObject:
    """The row of a new import."""
    at = event.timestamp.isoformat()
    return {
        "id": event.originator_id,
        "org": org,
        "created_at": at,
        "updated_at": at,
        "completed_at": None,
        "status": "pending",
        "source": event.source.model_dump(mode="json"),
        "lines": None,
        "events": None,
        "lines_done": 0,
        "events_done": 0,
        "agent_ids": [],
        "errors": [],
        "left_out": [],
        "is_conflict": False,
        "reason": None,
    }
