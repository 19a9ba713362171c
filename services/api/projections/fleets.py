"""Fleets as rows: what each owns, and what was applied of its files."""

from __future__ import annotations

from libs.contracts.api.fleets import (
    FleetApplyEnded,
    FleetApplyStarted,
    FleetCreated,
    FleetDeleted,
    FleetEvent,
    FleetMember,
    FleetMemberReleased,
    FleetRenamed,
    FleetUnitEnded,
    member_id,
)
from libs.contracts.bus_messages import JsonObject
from libs.eventstore.read_model_rows import RowWrites
from services.api.projections.tables import FLEET_APPLIES, FLEET_MEMBERS, FLEET_UNITS, FLEETS


def project_fleet(event: FleetEvent, org: str, rows: RowWrites) -> None:
    """Write an event's changes to the rows of a fleet."""
    fleet_id, at = event.originator_id, event.timestamp.isoformat()
    named: JsonObject = {"org": org, "fleet_id": fleet_id}
    match event:
        case FleetCreated():
            said: JsonObject = {"key": event.key, "name": event.name, "origin": event.origin}
            applied: JsonObject = {"created_at": at, "applying": None, "newest_apply": ""}
            rows.upsert(FLEETS, {"id": fleet_id, "org": org, **said, **applied})
        case FleetRenamed():
            rows.patch(FLEETS, {"id": fleet_id, "name": event.name})
        case FleetApplyStarted():
            apply: JsonObject = {"id": event.apply_id, "plan_id": event.plan_id, "by": event.by}
            began: JsonObject = {"undoes": event.undoes, "units": event.units, "created_at": at}
            open_: JsonObject = {"status": "running", "counts": {}, "reason": ""}
            rows.upsert(FLEET_APPLIES, {**apply, **named, **began, **open_, "completed_at": None})
            newest: JsonObject = {"applying": event.apply_id, "newest_apply": event.apply_id}
            rows.patch(FLEETS, {"id": fleet_id, **newest})
        case FleetUnitEnded():
            outcome = event.outcome
            for member in outcome.released:
                rows.delete(FLEET_MEMBERS, "id", member_id(fleet_id, member.id))
            for member in outcome.members:
                rows.upsert(FLEET_MEMBERS, {**named, **row_of(fleet_id, member), "applied_at": at})
            rows.upsert(
                FLEET_UNITS,
                {
                    "id": f"{event.apply_id}.{outcome.number}",
                    **named,
                    "apply_id": event.apply_id,
                    "number": outcome.number,
                    "fields": {**outcome.fields, "at": at},
                    "ids": {**outcome.ids},
                },
            )
        case FleetMemberReleased():
            gone = member_id(fleet_id, event.member.id)
            rows.delete(FLEET_MEMBERS, "id", gone)
        case FleetApplyEnded():
            ended: JsonObject = {"status": event.status, "counts": {**event.counts}}
            why: JsonObject = {"reason": event.reason, "completed_at": at}
            rows.patch(FLEET_APPLIES, {"id": event.apply_id, **ended, **why})
            rows.patch(FLEETS, {"id": fleet_id, "applying": None})
        case FleetDeleted():
            rows.delete(FLEETS, "id", fleet_id)
            for table in (FLEET_MEMBERS, FLEET_APPLIES, FLEET_UNITS):
                rows.delete(table, "fleet_id", fleet_id)


def row_of(fleet_id: str, member: FleetMember) -> JsonObject:
    """A member as a row."""
    row: JsonObject = {"id": member_id(fleet_id, member.id), "key": member.key}
    shown: JsonObject = {"kind": member.kind, "thing_id": member.id, "name": member.name}
    return {**row, **shown, "applied": member.applied}
