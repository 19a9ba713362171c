"""Events about callbacks as rows."""

from __future__ import annotations

from libs.contracts.agent.runs import CallbackAttempted, RunAccepted
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.agent_state import timestamp
from libs.eventstore.read_model_rows import RowWrites
from services.agent.projections.tables import CALLBACKS, RUNS


def wait_for_end(event: RunAccepted, org: str, rows: RowWrites) -> None:
    """Somebody wants to be told when this run has ended."""
    if event.run.callback_url is None:
        return
    rows.upsert(
        CALLBACKS,
        {
            "run_id": event.run_id,
            "org": org,
            "conversation_id": event.originator_id,
            "url": event.run.callback_url,
            "attempts": 0,
            "next_at": event.timestamp.isoformat(),
        },
    )


def note_attempt(event: CallbackAttempted, rows: RowWrites) -> None:
    """Somebody was told, or could not be."""
    shown: JsonObject = {
        "callback_sent_at": timestamp(event.sent_at),
        "callback_status_code": event.status_code,
        "callback_error": event.error,
    }
    rows.patch(RUNS, {"id": event.run_id, "fields": shown})
    if event.next_at is None:
        rows.delete(CALLBACKS, "run_id", event.run_id)
        return
    again: JsonObject = {"attempts": event.attempts, "next_at": event.next_at.isoformat()}
    rows.patch(CALLBACKS, {"run_id": event.run_id, **again})
