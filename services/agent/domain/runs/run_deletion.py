"""Runs that have ended are deleted."""

from __future__ import annotations

from datetime import datetime

from libs.contracts.agent.run_deletion import DeleteRun, RunDeleted
from libs.contracts.bus_messages import CONFLICT, Rejected
from services.agent.domain.conversations.conversation import Conversation


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
