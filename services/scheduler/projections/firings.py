"""Events about firings as rows, and what the row of their schedule says of them."""

from __future__ import annotations

from datetime import datetime

from libs.contracts.bus_messages import JsonObject
from libs.contracts.scheduler.firings import (
    FiringDeadLettered,
    FiringEnded,
    FiringEvent,
    FiringFailed,
    FiringRetried,
    FiringStarted,
)
from libs.eventstore.read_model_rows import RowWrites
from services.scheduler.projections.tables import FIRINGS, SCHEDULES


def project_firing(event: FiringEvent, org: str, rows: RowWrites) -> None:
    """A firing begins, is attempted, and ends."""
    match event:
        case FiringStarted():
            rows.upsert(FIRINGS, firing_row(event, org))
            slot: JsonObject = {} if event.by_hand else {"last_slot": iso(event.slot)}
            rows.patch(SCHEDULES, {"id": event.originator_id, "fields": slot})
        case FiringFailed():
            columns: JsonObject = {"status": "retrying", "error": event.error}
            columns["retry_at"] = iso(event.retry_at)
            rows.patch(FIRINGS, {"id": event.firing_id, **columns})
            mark_error(event, event.error, rows)
        case FiringRetried():
            columns = {"status": "running", "run_id": event.run_id, "attempts": event.attempt}
            columns |= {"retry_at": None, "fields": {"ended_at": None}}
            rows.patch(FIRINGS, {"id": event.firing_id, **columns})
        case FiringDeadLettered():
            end = ended_columns(event, "dead_letter")
            rows.patch(FIRINGS, {**end, "error": event.error})
            mark_error(event, event.error, rows)
            forget(event.forgets, rows)
        case FiringEnded():
            rows.patch(FIRINGS, ended_columns(event, event.outcome))
            if event.reason:
                rows.patch(FIRINGS, {"id": event.firing_id, "error": event.reason})
            if event.outcome == "completed":
                fields: JsonObject = {"last_error": None}
                rows.patch(SCHEDULES, {"id": event.originator_id, "fields": fields})
            forget(event.forgets, rows)


def firing_row(event: FiringStarted, org: str) -> JsonObject:
    """The row of a firing that begins."""
    return {
        "id": event.firing_id,
        "org": org,
        "schedule_id": event.originator_id,
        "agent_id": event.agent_id,
        "created_at": iso(event.timestamp),
        "slot": iso(event.slot),
        "run_id": event.run_id,
        "status": "running",
        "attempts": 1,
        "retry_at": None,
        "error": None,
        "fields": {"by_hand": event.by_hand, "ended_at": None},
    }


def ended_columns(event: FiringEnded | FiringDeadLettered, status: str) -> JsonObject:
    """The changes to a firing's row at its end."""
    fields: JsonObject = {"ended_at": iso(event.timestamp)}
    return {"id": event.firing_id, "status": status, "retry_at": None, "fields": fields}


def mark_error(event: FiringEvent, error: str, rows: RowWrites) -> None:
    """The schedule says which firing failed last, until one completes."""
    failed: JsonObject = {"firing_id": event.firing_id, "error": error, "at": iso(event.timestamp)}
    rows.patch(SCHEDULES, {"id": event.originator_id, "fields": {"last_error": failed}})


def forget(firing_id: str, rows: RowWrites) -> None:
    """The history has no room for a firing any more."""
    if firing_id:
        rows.delete(FIRINGS, "id", firing_id)


def iso(moment: datetime | None) -> str | None:
    """A moment as a row has it."""
    return None if moment is None else moment.isoformat()
