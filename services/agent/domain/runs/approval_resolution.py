"""Clients' answers to calls that wait for them, and the end of calls without an answer."""

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
from libs.contracts.agent.conversations import Message
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
    answers = first_answers(command.answers, approval)
    fresh = [answer for answer in answers if approval and answer.tool_call_id in approval.waiting]
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
    refused = refusal_of_misplaced(approval, fresh, command)
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
    later: the attempt that starts one has to know whether it was started before."""
    state, run_id = conversation.state, command.run.id
    conversation.record(RunStarted, at=at, run_id=run_id, agent_id=state.agent_id)
    message, step_id = response_message(command, approval, at=at), approval.step_id
    conversation.append(message, at=at, run_id=run_id, step_id=step_id, sent=True)
    answered = {answer.tool_call_id for answer in fresh}
    conversation.record(
        ApprovalAnswered,
        at=at,
        run_id=run_id,
        step_id=approval.step_id,
        request_id=approval.message_id,
        answers=[answer_record(answer, approval) for answer in fresh],
        waiting=[call_id for call_id in approval.waiting if call_id not in answered],
    )
    settle(conversation, at=at)


def answer_record(answer: CallAnswer, approval: PendingApproval) -> RecordedAnswer:
    """An answer, bound to the arguments that the client was shown."""
    return RecordedAnswer(**dict(answer), arguments_hash=approval.hashes[answer.tool_call_id])


def expire(conversation: Conversation, *, requested_at: datetime, at: datetime) -> bool:
    """End what waits for the client since then, if it is still that; returns whether it is."""
    approval = conversation.state.approval
    if approval is None or approval.requested_at != requested_at:
        return False
    end(conversation, ApprovalExpired, at=at)
    start_next(conversation, at=at)
    return True


def first_answers(answers: list[CallAnswer], approval: PendingApproval | None) -> list[CallAnswer]:
    """The first answer to each call. Old clients name the message that asked instead of the one
    call that it asked about."""
    first = {answer.tool_call_id: answer for answer in reversed(answers)}
    if approval is not None and len(approval.calls_by_id) == 1 and approval.message_id in first:
        [call_id] = approval.calls_by_id
        named = first.pop(approval.message_id).model_copy(update={"tool_call_id": call_id})
        first = {call_id: named, **first}
    return list(first.values())


def unanswerable(conversation: Conversation, answers: list[CallAnswer]) -> Rejected | None:
    """The refusal of answers to calls that do not wait, and did not lately."""
    state = conversation.state
    received = [answer.tool_call_id for answer in answers]
    if not received:
        reason = "`approvals`: an answer names at least one tool call"
        return Rejected(code=INVALID, reason=reason)
    known = {answer.tool_call_id: answer.ended for answer in state.answered}
    waiting = state.approval.waiting if state.approval else []
    others = [call_id for call_id in received if call_id not in waiting]
    ended = {f"{call_id} ({known[call_id]})" for call_id in others if known.get(call_id)}
    unknown = [call_id for call_id in others if call_id not in known]
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


def refusal_of_misplaced(
    approval: PendingApproval,
    fresh: list[CallAnswer],
    command: AnswerApproval,
) -> Rejected | None:
    """The refusal of answers after which the run could not go on: calls that the client itself
    carries out are only approved, or messages come while calls still wait."""
    theirs = [answer.tool_call_id for answer in fresh if answer.kind == "approved"]
    wrong = [call_id for call_id in theirs if call_id in approval.by_client]
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
    """The run that brought answers which come again; of several the newest."""
    received = {answer.tool_call_id for answer in answers}
    return [answer for answer in conversation.state.answered if answer.tool_call_id in received][-1]


def stands_behind(conversation: Conversation, earlier: AnsweredCall) -> bool:
    """Whether the run was cancelled that brought answers, and what became of its calls stands last,
    or a summary of it: no model has answered it, and nothing was said or reset since."""
    state = conversation.state
    if not earlier.run_cancelled or state.active_run is not None or state.approval is not None:
        return False
    calls = {answer.tool_call_id for answer in state.answered if answer.run_id == earlier.run_id}
    last = takewhile(lambda message: message.role in ("tool", "approval"), reversed(state.window))
    return state.window[-1].summary is not None or any(
        message.tool_call_id in calls for message in last
    )


def response_message(
    command: AnswerApproval, approval: PendingApproval, *, at: datetime
) -> Message:
    """The client's answers as they stand in the history, by the ids of the calls."""
    return Message(
        id=derived_id("message", command.run.id, "approval"),
        role="approval",
        content=[answer_document(answer) for answer in first_answers(command.answers, approval)],
        otid=command.otid,
        request_id=approval.message_id,
        created_at=at,
    )


def answer_document(answer: CallAnswer) -> Json:
    """An answer in the form in which clients send it."""
    if answer.kind == "returned":
        return {
            "type": "tool",
            "tool_return": answer.content,
            "status": answer.status,
            "tool_call_id": answer.tool_call_id,
            "stdout": None if answer.stdout is None else [*answer.stdout],
            "stderr": None if answer.stderr is None else [*answer.stderr],
        }
    return {
        "type": "approval",
        "tool_call_id": answer.tool_call_id,
        "approve": answer.kind == "approved",
        "reason": answer.reason,
    }
