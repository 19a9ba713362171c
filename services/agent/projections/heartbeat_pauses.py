"""Events about pauses as rows."""

from __future__ import annotations

from libs.contracts.agent.runs import HeartbeatPauseCancelled, HeartbeatsPaused, HeartbeatsResumed
from libs.contracts.bus_messages import Event
from libs.eventstore.read_model_rows import RowWrites
from services.agent.projections.tables import HEARTBEAT_PAUSES


def project_pause(event: Event, org: str, rows: RowWrites) -> None:
    """A conversation pauses, and goes on."""
    match event:
        case HeartbeatsPaused():
            rows.upsert(
                HEARTBEAT_PAUSES,
                {
                    "conversation_id": event.originator_id,
                    "org": org,
                    "agent_id": event.agent_id,
                    "minutes": event.minutes,
                    "until": event.until.isoformat(),
                },
            )
        case HeartbeatsResumed() | HeartbeatPauseCancelled():
            rows.delete(HEARTBEAT_PAUSES, "conversation_id", event.originator_id)
