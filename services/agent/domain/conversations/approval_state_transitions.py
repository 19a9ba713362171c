"""State transitions of calls that wait for the client."""

from __future__ import annotations

from libs.contracts.agent.approvals import (
    ApprovalAnswered,
    ApprovalEnded,
    ApprovalExpired,
    ApprovalRequested,
)
from libs.contracts.agent.runs import RunAccepted
from libs.contracts.letta.tool_rules import RequiresApprovalToolRule
from services.agent.domain.conversations.active_run import ActiveRun
from services.agent.domain.conversations.approval_state import (
    ANSWERED_CALLS_KEPT_MAX,
    AnsweredCall,
    Ended,
    Gate,
    PendingApproval,
)
from services.agent.domain.conversations.conversation_state import ConversationState


def end_approval(state: ConversationState, event: ApprovalEnded) -> None:
    """Nobody can answer any more."""
    ended: Ended = "expired" if isinstance(event, ApprovalExpired) else "cancelled"
    state.approval = None
    remember(state, event.tool_call_ids, event.run_id, ended)


def follow_up(active: ActiveRun, message_id: str) -> None:
    """The model is shown what the client said together with its answer; then the calls that it
    answered are done with."""
    if not active.follow_ups:
        return
    active.follow_ups = [message for message in active.follow_ups if message.id != message_id]
    if not active.follow_ups:
        active.called, active.calls = active.history, []


def gate_of(event: RunAccepted) -> Gate | None:
    """The things that a run leaves to the client; None for nothing."""
    approvals = [
        rule.tool_name for rule in event.tool_rules if isinstance(rule, RequiresApprovalToolRule)
    ]
    if not approvals and not event.client_tools and not event.client_skills:
        return None
    return Gate(
        approvals=approvals,
        client_tools=event.client_tools,
        client_skills=event.client_skills,
    )


def pending_approval(active: ActiveRun, event: ApprovalRequested) -> PendingApproval:
    """The step of the active run, as it waits for the client."""
    return PendingApproval(
        run_id=event.run_id,
        step_id=event.step_id,
        message_id=event.message_id,
        requested_at=event.timestamp,
        calls=active.calls,
        hashes={call.tool_call_id: call.arguments_hash for call in event.calls},
        by_client=[call.tool_call_id for call in event.calls if call.by_client],
        offered=active.offered,
        called=active.called,
    )


def take_answers(state: ConversationState, event: ApprovalAnswered) -> None:
    """Calls have answers. With the last of them the run goes on where the one that asked ended;
    until then it ends as that did."""
    approval, active = state.approval, state.active_run
    assert approval is not None, "only what waits is answered"
    assert active is not None, "a run brings the answer"
    for answer in event.answers:
        approval.calls_by_id[answer.tool_call_id].answer = answer
    active.step_id, active.calls = approval.step_id, approval.calls
    active.offered, active.called = approval.offered, approval.called
    # Old clients name the message that asked.
    names = [*(answer.tool_call_id for answer in event.answers), event.request_id]
    remember(state, names, event.run_id)
    if not approval.waiting:
        state.approval = None


def cancel_answers(state: ConversationState, run_id: str) -> None:
    """The run was cancelled that brought answers: who answers again wants to go on."""
    state.answered = [
        answer.model_copy(update={"run_cancelled": True}) if answer.run_id == run_id else answer
        for answer in state.answered
    ]


def settle_cancelled(state: ConversationState) -> None:
    """More was said, or nothing is shown of it any more: who answers again does not go on behind
    runs that were cancelled before."""
    if any(answer.run_cancelled for answer in state.answered):
        state.answered = [
            answer.model_copy(update={"run_cancelled": False}) for answer in state.answered
        ]


def answers_moved(state: ConversationState, before: str, run_id: str) -> None:
    """Another run goes on behind the results of one that was cancelled."""
    changed = {"run_id": run_id, "run_cancelled": False}
    state.answered = [
        answer.model_copy(update=changed) if answer.run_id == before else answer
        for answer in state.answered
    ]


def remember(
    state: ConversationState, tool_call_ids: list[str], run_id: str, ended: Ended = ""
) -> None:
    """Keep the outcome of calls that waited, for clients that answer again."""
    fresh = [
        AnsweredCall(tool_call_id=call_id, run_id=run_id, ended=ended)
        for call_id in tool_call_ids
        if not (ended and any(call_id == known.tool_call_id for known in state.answered))
    ]
    state.answered = [*state.answered, *fresh][-ANSWERED_CALLS_KEPT_MAX:]
