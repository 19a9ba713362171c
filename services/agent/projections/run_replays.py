"""Replays of runs as rows."""

from __future__ import annotations

from libs.contracts.agent.run_replays import (
    RunReplayAdvanced,
    RunReplayCompleted,
    RunReplayDeleted,
    RunReplayEvent,
    RunReplayFailed,
    RunReplayRequested,
    RunReplayStepCompared,
)
from libs.contracts.bus_messages import JsonObject
from libs.eventstore.read_model_rows import RowWrites
from services.agent.domain.runs.step_results import error_fields
from services.agent.projections.tables import RUN_REPLAY_STEPS, RUN_REPLAYS


def project_replay(event: RunReplayEvent, org: str, rows: RowWrites) -> None:
    """Write an event's changes to the rows of replays."""
    match event:
        case RunReplayRequested():
            rows.upsert(RUN_REPLAYS, replay_row(event, org))
        case RunReplayAdvanced():
            at: JsonObject = {"advanced_at": event.timestamp.isoformat()}
            rows.patch(RUN_REPLAYS, {"id": event.originator_id, "fields": at})
        case RunReplayStepCompared():
            rows.upsert(RUN_REPLAY_STEPS, step_row(event, org))
        case RunReplayCompleted():
            done: JsonObject = event.model_dump(
                mode="json", include={"same", "first_difference", "recorded", "replayed", "notes"}
            )
            end(rows, event, "completed", done)
        case RunReplayFailed():
            rows.patch(RUN_REPLAYS, {"id": event.originator_id, "error": error_fields(event)})
            end(rows, event, "failed", {})
        case RunReplayDeleted():
            rows.delete(RUN_REPLAYS, "id", event.originator_id)
            rows.delete(RUN_REPLAY_STEPS, "replay_id", event.originator_id)


def end(rows: RowWrites, event: RunReplayEvent, status: str, fields: JsonObject) -> None:
    """A replay has ended, with these fields."""
    fields = {**fields, "status": status, "completed_at": event.timestamp.isoformat()}
    rows.patch(RUN_REPLAYS, {"id": event.originator_id, "status": status, "fields": fields})


def replay_row(event: RunReplayRequested, org: str) -> JsonObject:
    """A replay that has not ended."""
    return {
        "id": event.originator_id,
        "org": org,
        "agent_id": event.agent_id,
        "run_id": event.run.run_id,
        "created_at": event.timestamp.isoformat(),
        "status": "running",
        "error": None,
        "fields": {
            "id": event.originator_id,
            "run_id": event.run.run_id,
            "agent_id": event.agent_id,
            "conversation_id": event.run.conversation_id,
            "mode": event.mode,
            "model": event.model,
            "from_step": event.from_step,
            "status": "running",
            "created_at": event.timestamp.isoformat(),
            "advanced_at": None,
            "completed_at": None,
            "same": None,
            "first_difference": None,
            "recorded": None,
            "replayed": None,
            "notes": [],
        },
    }


def step_row(event: RunReplayStepCompared, org: str) -> JsonObject:
    """A step of both transcripts."""
    compared = event.model_dump(mode="json")
    return {
        "replay_id": event.originator_id,
        "number": event.number,
        "org": org,
        "recorded": compared.get("recorded"),
        "replayed": compared.get("replayed"),
        "answers": compared["answers"],
        "differences": compared["differences"],
    }
