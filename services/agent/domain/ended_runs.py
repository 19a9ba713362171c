"""What may be done about runs that are over, and about their steps."""

from __future__ import annotations

from datetime import datetime

from libs.contracts.bus_messages import CONFLICT, Rejected
from libs.contracts.run_deletion import DeleteRun, RunDeleted
from libs.contracts.step_annotations import AnnotateStep, StepAnnotated
from services.agent.domain.conversation import Conversation


def annotate_step(
    conversation: Conversation, command: AnnotateStep, *, run_id: str, at: datetime
) -> None:
    """Keep what a client says of a step of this run."""
    conversation.happened(
        StepAnnotated, at=at, run_id=run_id, step_id=command.step_id, changes=command.changes
    )


def delete_run(conversation: Conversation, command: DeleteRun, *, at: datetime) -> Rejected | None:
    """Forget a run; refused while it has not ended."""
    state = conversation.state
    unended = {one.run.id for one in state.queue}
    if state.turn is not None:
        unended.add(state.turn.run.id)
    if command.run_id in unended:
        reason = f"Run {command.run_id} has not ended: cancel it first, then delete it"
        return Rejected(code=CONFLICT, reason=reason)
    conversation.happened(RunDeleted, at=at, run_id=command.run_id)
    return None
