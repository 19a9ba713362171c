"""Events about runs as rows: the runs with their steps, callbacks and callers, and what a
conversation waits for."""

from __future__ import annotations

from libs.contracts.agent.approvals import ApprovalAnswered, ApprovalEnded, ApprovalRequested
from libs.contracts.agent.conversations import MessageAppended, RunEvent, Usage
from libs.contracts.agent.runs import (
    CallbackAttempted,
    HeartbeatPauseCancelled,
    HeartbeatsPaused,
    HeartbeatsResumed,
    QueuedRunsCancelled,
    RunAccepted,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunStarted,
)
from libs.contracts.agent.steps import ModelReplied, StepAnnotated
from libs.contracts.bus_messages import Event, JsonObject
from libs.contracts.letta.agent_state import timestamp
from libs.contracts.letta.enums import RunStatus, StepStatus, StopReasonType, run_status
from libs.contracts.letta.runs import run_state
from libs.eventstore.read_model_rows import RowWrites
from services.agent.domain.runs.step_results import error_fields, letta_usage
from services.agent.projections.conversations import spoken_in
from services.agent.projections.tables import (
    APPROVALS,
    CALLBACKS,
    CONVERSATIONS,
    HEARTBEAT_PAUSES,
    RUNS,
    STEPS,
)


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
            rows.patch(RUNS, {**ended_fields(event), "error": error_fields(event)})


def ended_fields(event: RunCompleted | RunFailed | RunCancelled) -> JsonObject:
    """The changes to a run's row at its end."""
    reason = StopReasonType.cancelled
    if not isinstance(event, RunCancelled):
        reason = StopReasonType(event.stop_reason)
    status = run_status(reason).value
    context_tokens = event.context_tokens if isinstance(event, RunCompleted) else None
    return {
        "id": event.run_id,
        "status": status,
        "stop_reason": reason.value,
        "usage": letta_usage(event.usage, event.step_count, context_tokens),
        "fields": {
            "status": status,
            "stop_reason": reason.value,
            "completed_at": timestamp(event.timestamp),
            "total_duration_ns": event.total_duration_ns,
        },
    }


def never_started(event: QueuedRunsCancelled) -> JsonObject:
    """The changes to the row of a run that is cancelled before it starts."""
    cancelled = RunStatus.cancelled.value
    return {
        "status": cancelled,
        "stop_reason": StopReasonType.cancelled.value,
        "usage": letta_usage(Usage()),
        "fields": {
            "status": cancelled,
            "stop_reason": StopReasonType.cancelled.value,
            "completed_at": timestamp(event.timestamp),
        },
    }


def project_approval(
    event: ApprovalRequested | ApprovalAnswered | ApprovalEnded, org: str, rows: RowWrites
) -> None:
    """A conversation waits for its client, until all that it was asked is answered."""
    match event:
        case ApprovalRequested():
            rows.upsert(
                APPROVALS,
                {
                    "conversation_id": event.originator_id,
                    "org": org,
                    "agent_id": event.agent_id,
                    "message_id": event.message_id,
                    "requested_at": event.timestamp.isoformat(),
                },
            )
        case ApprovalAnswered(waiting=[_, *_]):
            pass
        case _:
            rows.delete(APPROVALS, "conversation_id", event.originator_id)


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


def called_run_row(event: RunAccepted, org: str) -> JsonObject:
    """The row of a run's caller, and of the runs that led to it."""
    caller = event.callers[-1]
    return {
        "run_id": event.run_id,
        "org": org,
        "conversation_id": event.originator_id,
        "caller_run_id": caller.run_id,
        "caller_conversation_id": caller.conversation_id,
        "waits": caller.waits,
        "callers": [called_from.model_dump(mode="json") for called_from in event.callers],
    }


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


def answered_step(event: ModelReplied, org: str) -> JsonObject:
    """A step that the model has answered."""
    named = {"id": event.step_id, "agent_id": event.agent_id or None, "model": event.model}
    return step_row(event, org, StepStatus.success.value) | named


def step_row(event: RunEvent, org: str, status: str) -> JsonObject:
    """The columns that all rows of steps have."""
    return {
        "org": org,
        "conversation_id": event.originator_id,
        "run_id": event.run_id,
        "position": event.originator_version,
        "created_at": event.timestamp.isoformat(),
        "status": status,
    }


def note_agent(event: MessageAppended, rows: RowWrites) -> None:
    """Write the step's agent, where an older release recorded it: its message says so."""
    answers = event.message.role == "assistant" and not event.sent
    if answers and event.step_id is not None:
        rows.patch(STEPS, {"id": event.step_id, "agent_id": event.agent_id})


def end_step(event: RunFailed | RunCancelled, org: str, rows: RowWrites) -> None:
    """End the step that was under way; events of older releases do not name it."""
    step = event.step
    if step is None:
        return
    failed = isinstance(event, RunFailed)
    status = (StepStatus.failed if failed else StepStatus.cancelled).value
    if not step.asked:
        rows.patch(STEPS, {"id": step.id, "status": status})
        return
    named = {"id": step.id, "agent_id": step.agent_id, "model": step.model or None}
    rows.upsert(STEPS, step_row(event, org, status) | named)


def annotate_step(event: StepAnnotated, rows: RowWrites) -> None:
    """Write a client's annotation of a step."""
    rows.patch(STEPS, {"id": event.step_id, **event.changes})
