"""Events of the scheduler service as rows."""

from __future__ import annotations

from libs.contracts.bus_messages import Event, JsonObject
from libs.contracts.scheduler.firings import FiringEvent, FiringStarted
from libs.contracts.scheduler.schedule_config import ScheduleConfig
from libs.contracts.scheduler.schedules import (
    ScheduleCompleted,
    ScheduleCreated,
    ScheduleDeleted,
    SchedulePaused,
    ScheduleResumed,
    ScheduleUpdated,
    SlotsSkipped,
)
from libs.eventstore.read_model_rows import RowWrites, Table
from services.scheduler.projections.firings import iso, project_firing
from services.scheduler.projections.tables import FIRINGS, SCHEDULES

READ_MODELS: tuple[Table, ...] = (SCHEDULES, FIRINGS)


def project(event: Event, org: str, rows: RowWrites) -> None:
    """Write an event's changes to the read models."""
    schedule_id = event.originator_id
    match event:
        case ScheduleCreated():
            row = schedule_row(event.schedule, org)
            row["next_at"] = iso(event.next_at)
            rows.upsert(SCHEDULES, row)
        case ScheduleUpdated():
            columns: JsonObject = {"id": schedule_id, "next_at": iso(event.next_at)}
            if event.next_at:
                columns["status"] = "active"
            rows.patch(SCHEDULES, {**columns, "fields": event.schedule.model_dump(mode="json")})
        case SchedulePaused():
            rows.patch(SCHEDULES, {"id": schedule_id, "status": "paused", "next_at": None})
        case ScheduleResumed():
            columns = {"id": schedule_id, "status": "active", "next_at": iso(event.next_at)}
            rows.patch(SCHEDULES, columns)
        case ScheduleCompleted():
            rows.patch(SCHEDULES, {"id": schedule_id, "status": "completed", "next_at": None})
        case ScheduleDeleted():
            rows.delete(FIRINGS, "schedule_id", schedule_id)
            rows.delete(SCHEDULES, "id", schedule_id)
        case SlotsSkipped():
            rows.patch(SCHEDULES, skipped_fields(event))
        case FiringEvent():
            if isinstance(event, FiringStarted):
                rows.patch(SCHEDULES, {"id": schedule_id, "next_at": iso(event.next_at)})
            project_firing(event, org, rows)


def schedule_row(config: ScheduleConfig, org: str) -> JsonObject:
    """The row of a schedule that nothing has happened to."""
    nothing: JsonObject = {"last_slot": None, "last_error": None, "last_skipped": None}
    return {
        "id": config.id,
        "org": org,
        "agent_id": config.agent_id,
        "created_at": iso(config.created_at),
        "status": "active",
        "fields": {**config.model_dump(mode="json"), **nothing},
    }


def skipped_fields(event: SlotsSkipped) -> JsonObject:
    """The fields of a schedule's row about slots that were not fired."""
    skipped: JsonObject = {
        "reason": event.reason,
        "count": event.count,
        "first": iso(event.first),
        "last": iso(event.last),
    }
    fields: JsonObject = {"last_skipped": skipped}
    return {"id": event.originator_id, "next_at": iso(event.next_at), "fields": fields}
