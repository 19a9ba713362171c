"""Events about runs as rows."""

from __future__ import annotations

from libs.contracts.agent.conversations import Usage
from libs.contracts.agent.runs import (
    QueuedRunsCancelled,
    RunAccepted,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunStarted,
)
from libs.contracts.bus_messages import Event, JsonObject
from libs.contracts.letta import response_and_stream_events
from libs.contracts.letta.agent_state import timestamp
from libs.contracts.letta.enums import RunStatus, StopReasonType, run_status
from libs.contracts.letta.runs import run_state
from libs.eventstore.read_model_rows import RowWrites
from services.agent.projections.conversations import spoken_in
from services.agent.projections.tables import CONVERSATIONS, RUNS


def project_run(event: Event, org: str, rows: RowWrites) -> None:
    """Runs are accepted, start and end."""
    match event:
        case RunAccepted():
            rows.upsert(
                RUNS,
                {
                    "id": event.run_id,
                    "org": org,
                    "agent_id": event.run.agent_id,
                    "conversation_id": event.originator_id,
                    "created_at": event.run.created_at.isoformat(),
                    "status": RunStatus.created.value,
                    "background": event.run.background,
                    "request_hash": event.request_hash,
                    "stream_tokens": event.stream_tokens,
                    "fields": run_state(event.run),
                },
            )
            if event.run.conversation_id:
                rows.patch(CONVERSATIONS, spoken_in(event))
        case RunStarted():
            status = RunStatus.running.value
            rows.patch(RUNS, {"id": event.run_id, "status": status, "fields": {"status": status}})
        case RunCompleted() | RunCancelled():
            rows.patch(RUNS, ended_fields(event))
        case RunFailed():
            rows.patch(RUNS, {**ended_fields(event), "error": error_of(event)})


def error_of(event: RunFailed) -> JsonObject:
    """Why a run failed."""
    return {
        "error_type": event.error_type,
        "message": event.message,
        "detail": event.detail,
    }


def ended_fields(event: RunCompleted | RunFailed | RunCancelled) -> JsonObject:
    """What the end of a run changes in its row."""
    reason = StopReasonType.cancelled
    if not isinstance(event, RunCancelled):
        reason = StopReasonType(event.stop_reason)
    status = run_status(reason).value
    context_tokens = event.context_tokens if isinstance(event, RunCompleted) else None
    return {
        "id": event.run_id,
        "status": status,
        "stop_reason": reason.value,
        "usage": usage_of(event.usage, event.step_count, context_tokens),
        "fields": {
            "status": status,
            "stop_reason": reason.value,
            "completed_at": timestamp(event.timestamp),
            "total_duration_ns": event.total_duration_ns,
        },
    }


def usage_of(tokens: Usage, step_count: int, context_tokens: int | None) -> JsonObject:
    """What a run used, as V1 says it."""
    usage = response_and_stream_events.Usage(
        completion_tokens=tokens.completion_tokens,
        prompt_tokens=tokens.prompt_tokens,
        total_tokens=tokens.prompt_tokens + tokens.completion_tokens,
        step_count=step_count,
        cached_input_tokens=tokens.cached_input_tokens,
        cache_write_tokens=tokens.cache_write_tokens,
        reasoning_tokens=tokens.reasoning_tokens,
        context_tokens=context_tokens,
    )
    return response_and_stream_events.usage_statistics(usage)


def never_started(event: QueuedRunsCancelled) -> JsonObject:
    """What it changes in the row of a run to be cancelled before it starts."""
    cancelled = RunStatus.cancelled.value
    return {
        "status": cancelled,
        "stop_reason": StopReasonType.cancelled.value,
        "usage": usage_of(Usage(), step_count=0, context_tokens=None),
        "fields": {
            "status": cancelled,
            "stop_reason": StopReasonType.cancelled.value,
            "completed_at": timestamp(event.timestamp),
        },
    }
