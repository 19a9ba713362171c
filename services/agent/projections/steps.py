"""Events about steps as rows: what steps are found by. All else is read from their event, which is
the one at `position`."""

from __future__ import annotations

from libs.contracts.agent.conversations import MessageAppended
from libs.contracts.agent.runs import RunCancelled, RunFailed
from libs.contracts.agent.steps import ModelReplied, StepAnnotated
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.enums import StepStatus
from libs.eventstore.read_model_rows import RowWrites
from services.agent.projections.tables import STEPS


def answered_step(event: ModelReplied, org: str) -> JsonObject:
    """A step that the model has answered."""
    return {
        "id": event.step_id,
        "org": org,
        "agent_id": event.agent_id or None,
        "conversation_id": event.originator_id,
        "run_id": event.run_id,
        "position": event.originator_version,
        "created_at": event.timestamp.isoformat(),
        "status": StepStatus.success.value,
        "model": event.model,
    }


def note_agent(event: MessageAppended, rows: RowWrites) -> None:
    """Whose step it is, where an older release recorded it: its message says so."""
    answers = event.message.role == "assistant" and not event.sent
    if answers and event.step_id is not None:
        rows.patch(STEPS, {"id": event.step_id, "agent_id": event.agent_id})


def end_step(event: RunFailed | RunCancelled, org: str, rows: RowWrites) -> None:
    """What becomes of the step that was under way; events of older releases do not name it."""
    step = event.step
    if step is None:
        return
    failed = isinstance(event, RunFailed)
    status = (StepStatus.failed if failed else StepStatus.cancelled).value
    if not step.asked:
        rows.patch(STEPS, {"id": step.id, "status": status})
        return
    row: JsonObject = {
        "id": step.id,
        "org": org,
        "agent_id": step.agent_id,
        "conversation_id": event.originator_id,
        "run_id": event.run_id,
        "position": event.originator_version,
        "created_at": event.timestamp.isoformat(),
        "status": status,
        "model": step.model or None,
    }
    rows.upsert(STEPS, row)


def annotate_step(event: StepAnnotated, rows: RowWrites) -> None:
    """What a client says of a step."""
    rows.patch(STEPS, {"id": event.step_id, **event.changes})
