"""Restores of agents as rows."""

from __future__ import annotations

from libs.contracts.api.restores import (
    RestoreCompleted,
    RestoreEvent,
    RestoreRefused,
    RestoreRequested,
    RestoreUndone,
)
from libs.contracts.bus_messages import JsonObject
from libs.eventstore.read_model_rows import RowWrites
from services.api.projections.tables import RESTORES


def project_restore(event: RestoreEvent, org: str, rows: RowWrites) -> None:
    """Write an event's changes to the row of a restore."""
    at = event.timestamp.isoformat()
    match event:
        case RestoreRequested():
            rows.upsert(
                RESTORES,
                {
                    "id": event.restore_id,
                    "org": org,
                    "restores_id": event.originator_id,
                    "agent_id": event.agent_id,
                    "created_at": at,
                    "status": "running",
                },
            )
        case RestoreRefused():
            ended: JsonObject = {} if event.undoes else {"status": "failed", "completed_at": at}
            why: JsonObject = {"code": event.code, "reason": event.reason}
            rows.patch(RESTORES, {"id": event.restore_id, **why, **ended})
        case RestoreUndone():
            rows.patch(RESTORES, {"id": event.restore_id, "status": "failed", "completed_at": at})
        case RestoreCompleted():
            done: JsonObject = {"status": "completed", "completed_at": at}
            rows.patch(RESTORES, {"id": event.restore_id, **done})
