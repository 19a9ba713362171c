"""What clients say about calls that wait for them, and what becomes of calls without an answer."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from itertools import takewhile

from libs.contracts.agent.approvals import (
    AnswerApproval,
    ApprovalAnswered,
    ApprovalExpired,
    CallAnswer,
    RecordedAnswer,
)
from libs.contracts.agent.conversations import Message, MessageAppended
from libs.contracts.agent.runs import RunStarted
from libs.contracts.bus_messages import INVALID, Json, Rejected
from libs.contracts.deterministic_ids import derived_id
from services.agent.domain.conversations.approval_state import AnsweredCall, PendingApproval
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.conversations.conversation_state import approval_pending
from services.agent.domain.runs.client_call_answers import end
from services.agent.domain.runs.run_progress import settle, start_next
from services.agent.domain.runs.run_requests import Terms, accept, promise


def answer(
    conversation: Conversation,
    command: AnswerApproval,
    terms: Terms,
    *,
    asked_at: datetime,
    at: datetime,
) -> str | Rejected:
    """Take the client's answers; returns the id of the run that brings them. An answer that came
    before is the same answer: its run is meant, and the first word about a call holds. Messages
    that came with it are answered by a run of their own then; where its run was cancelled, another
    one goes on behind the results that the calls got."""
    approval = conversation.state.approval
    answers = meant(command.answers, approval)
    fresh = [one for one in answers if approval and one.tool_call_id in approval.waiting]
    refused = unanswerable(conversation, answers)
    if refused:
        return refused
    if approval is None or not fresh:
        if not command.messages:
            earlier = run_of_answers(conversation, answers)
            if not stands_behind(conversation, earlier):
                return earlier.run_id
            terms = replace(terms, autoclear=False)
            promise(
                conversation, command, terms, goes_on_from=earlier.run_id, asked_at=asked_at, at=at
            )
            start_next(conversation, at=at)
            return command.run.id
        refused = accept(conversation, command, terms, asked_at=asked_at, at=at)
        return refused or command.run.id
    refused = misplaced(approval, fresh, command)
    if refused:
        return refused
    promise(conversation, command, terms, answers=True, asked_at=asked_at, at=at)
    record(conversation, command, approval, fresh, at=at)
    return command.run.id


def record(
    conversation: Conversation,
    command: AnswerApproval,
    approval: PendingApproval,
    fresh: list[CallAnswer],
    *,
    at: datetime,
) -> None:
    """Start the run that brings the answers, and let it go on where the calls waited. Tools start
    later: whoever starts one has to know whether it was started before."""
    state, run_id = conversation.state, command.run.id
    conversation.record(RunStarted, at=at, run_id=run_id, agent_id=state.agent_id)
    conversation.record(
        MessageAppended,
        at=at,
        agent_id=state.agent_id,
        message=response_message(command, approval, at=at),
        run_id=run_id,
        step_id=approval.step_id,
        sent=True,
    )
    answered = {one.tool_call_id for one in fresh}
    conversation.record(
        ApprovalAnswered,
        at=at,
        run_id=run_id,
        step_id=approval.step_id,
        request_id=approval.message_id,
        answers=[recorded(one, approval) for one in fresh],
        waiting=[one for one in approval.waiting if one not in answered],
    )
    settle(conversation, at=at)


def recorded(one: CallAnswer, approval: PendingApproval) -> RecordedAnswer:
    """An answer, bound to the arguments that the client was shown."""
    return RecordedAnswer(**dict(one), arguments_hash=approval.hashes[one.tool_call_id])


def expire(conversation: Conversation, *, requested_at: datetime, at: datetime) -> bool:
    """End what waits for the client since then, if it is still that; returns whether it is."""
    approval = conversation.state.approval
    if approval is None or approval.requested_at != requested_at:
        return False
    end(conversation, ApprovalExpired, at=at)
    start_next(conversation, at=at)
    return True


def meant(answers: list[CallAnswer], approval: PendingApproval | None) -> list[CallAnswer]:
    """The answers, the first of each call. Old clients name the message that asked instead of the
    one call that it asked about."""
    first = {one.tool_call_id: one for one in reversed(answers)}
    if approval is not None and len(approval.calls_by_id) == 1 and approval.message_id in first:
        [call_id] = approval.calls_by_id
        named = first.pop(approval.message_id).model_copy(update={"tool_call_id": call_id})
        first = {call_id: named, **first}
    return list(first.values())


def unanswerable(conversation: Conversation, answers: list[CallAnswer]) -> Rejected | None:
    """The refusal of answers to calls that do not wait, and did not lately."""
    state = conversation.state
    received = [one.tool_call_id for one in answers]
    if not received:
        reason = "`approvals`: an answer names at least one tool call"
        return Rejected(code=INVALID, reason=reason)
    known = {one.tool_call_id: one.ended for one in state.answered}
    waiting = state.approval.waiting if state.approval else []
    ended = {f"{one} ({known[one]})" for one in received if known.get(one) and one not in waiting}
    unknown = [one for one in received if one not in known and one not in waiting]
    if not unknown and not ended:
        return None
    if state.approval is not None:
        reason = f"Invalid tool call IDs. Expected {waiting}, but received {received}"
    else:
        reason = (
            "Cannot process approval response: No tool call is currently awaiting approval. "
            f"Received {received}"
        )
    if ended:
        reason += f". These do not wait any more: {', '.join(sorted(ended))}"
    return Rejected(code=INVALID, reason=reason)


def misplaced(
    approval: PendingApproval,
    fresh: list[CallAnswer],
    command: AnswerApproval,
) -> Rejected | None:
    """The refusal of answers that nothing could follow from."""
    theirs = [one.tool_call_id for one in fresh if one.kind == "approved"]
    wrong = [one for one in theirs if one in approval.by_client]
    if wrong:
        reason = (
            f"`approvals`: the client carries out {', '.join(wrong)}: send what the tool returned "
            '(`type` "tool"), or deny it'
        )
        return Rejected(code=INVALID, reason=reason)
    if command.messages and len(fresh) < len(approval.waiting):
        return approval_pending(approval)
    return None


def run_of_answers(conversation: Conversation, answers: list[CallAnswer]) -> AnsweredCall:
    """What is known of the run that brought answers which come again; of several the newest."""
    received = {one.tool_call_id for one in answers}
    return [one for one in conversation.state.answered if one.tool_call_id in received][-1]


def stands_behind(conversation: Conversation, earlier: AnsweredCall) -> bool:
    """Whether the run was cancelled that brought answers, and what became of its calls stands last:
    a model has not seen it yet, and nothing was said or reset since."""
    state = conversation.state
    if not earlier.run_cancelled or state.active_run is not None or state.approval is not None:
        return False
    calls = {one.tool_call_id for one in state.answered if one.run_id == earlier.run_id}
    last = takewhile(lambda one: one.role in ("tool", "approval"), reversed(state.window))
    return any(one.tool_call_id in calls for one in last)


def response_message(
    command: AnswerApproval, approval: PendingApproval, *, at: datetime
) -> Message:
    """The client's answers as they stand in the history, by the ids of the calls."""
    return Message(
        id=derived_id("message", command.run.id, "approval"),
        role="approval",
        content=[answer_document(one) for one in meant(command.answers, approval)],
        otid=command.otid,
        request_id=approval.message_id,
        created_at=at,
    )


def answer_document(one: CallAnswer) -> Json:
    """An answer in the form in which clients send it."""
    if one.kind == "returned":
        return {
            "type": "tool",
            "tool_return": one.content,
            "status": one.status,
            "tool_call_id": one.tool_call_id,
            "stdout": None if one.stdout is None else [*one.stdout],
            "stderr": None if one.stderr is None else [*one.stderr],
        }
    return {
        "type": "approval",
        "tool_call_id": one.tool_call_id,
        "approve": one.kind == "approved",
        "reason": one.reason,
    }
