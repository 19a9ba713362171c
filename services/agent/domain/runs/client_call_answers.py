"""Calls that wait for the client: asked about, answered, and shown to the model as any other."""

from __future__ import annotations

from datetime import datetime

from libs.contracts.agent.approvals import (
    ApprovalCancelled,
    ApprovalEnded,
    ApprovalExpired,
    ApprovalRequested,
    RecordedAnswer,
    ToolCallReturned,
    WaitingCall,
    arguments_hash,
)
from libs.contracts.agent.conversations import Message, ToolCall, ToolStatus
from libs.contracts.agent.steps import ToolCallRefused
from libs.contracts.bus_messages import Json
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.shortened_text import cut
from libs.contracts.tools.base_tools.definition import TOOL_RETURN_CHARS_MAX
from services.agent.domain.conversations.approval_state import PendingApproval, PendingCall
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.runs.tool_calls import end_call

NOT_APPROVED = "The user did not allow this call, so it was not carried out."
UNAPPROVED = (
    "This call was not carried out: what was approved is another call, with other arguments."
)
ENDED = {
    ApprovalExpired: (
        "This call was not carried out: it had to be approved or carried out by the user's client, "
        "and there was no answer until the deadline."
    ),
    ApprovalCancelled: "This call was not carried out: the user cancelled it before answering.",
}


def ask(conversation: Conversation, *, at: datetime) -> None:
    """Record that calls of the step wait for the client, unless that is recorded already."""
    state = conversation.state
    if state.approval is not None:
        return
    active = conversation.running()
    by_client = active.gate.by_client if active.gate else set()
    conversation.record(
        ApprovalRequested,
        at=at,
        run_id=active.run.id,
        agent_id=state.agent_id,
        step_id=active.step_id,
        message_id=state.window[-1].id,
        calls=[
            WaitingCall(
                tool_call_id=pending.call.id,
                tool=pending.call.name,
                arguments_hash=arguments_hash(pending.call),
                by_client=pending.call.name in by_client,
            )
            for pending in active.calls
            if pending.waits_for_client
        ],
    )


def show_answer(conversation: Conversation, pending: PendingCall, *, at: datetime) -> None:
    """Record what the client made of a call, and show it to the model as the call's result."""
    active = conversation.running()
    call, answer = pending.call, pending.answer
    assert answer is not None, "there is an answer"
    place = str(active.calls.index(pending))
    message_id = derived_id("message", active.run.id, active.step_id, place)
    message = answer_message(call, answer, message_id=message_id, at=at)
    tool, status = call.name, answer.status
    if answer.kind == "returned":
        end_call(conversation, ToolCallReturned, call, message, at=at, tool=tool, status=status)
    else:
        end_call(conversation, ToolCallRefused, call, message, at=at, tool=tool)


def show_follow_ups(conversation: Conversation, *, at: datetime) -> None:
    """Show the model what the client said together with its answer."""
    active = conversation.running()
    for message in list(active.follow_ups):
        run_id, step_id = active.run.id, active.next_step_id
        conversation.append(message, at=at, run_id=run_id, step_id=step_id, sent=True)


def end(conversation: Conversation, kind: type[ApprovalEnded], *, at: datetime) -> None:
    """Record that nobody can answer any more, and give every call of the step a result that says
    why it has none."""
    approval = conversation.state.approval
    assert approval is not None, "calls wait"
    conversation.record(
        kind,
        at=at,
        run_id=approval.run_id,
        step_id=approval.step_id,
        request_id=approval.message_id,
        tool_call_ids=list(approval.calls_by_id),
    )
    for message in last_results(approval, ENDED[kind], at=at):
        conversation.append(message, at=at, step_id=approval.step_id)


def last_results(approval: PendingApproval, why: str, *, at: datetime) -> list[Message]:
    """A result for each call of a step that does not go on: the client's, where it gave one."""
    results: list[Message] = []
    for place, pending in enumerate(approval.calls):
        message_id = derived_id("message", approval.message_id, approval.step_id, str(place))
        answer = pending.answer
        if answer is None or answer.kind == "approved":
            results.append(tool_message(pending.call, "error", why, message_id=message_id, at=at))
        else:
            results.append(answer_message(pending.call, answer, message_id=message_id, at=at))
    return results


def answer_message(
    call: ToolCall, answer: RecordedAnswer, *, message_id: str, at: datetime
) -> Message:
    """The message to the model as the result of a call that the client denied or carried out."""
    if answer.kind == "approved":  # for other arguments
        return tool_message(call, "error", UNAPPROVED, message_id=message_id, at=at)
    if answer.kind == "denied":
        why = f"{NOT_APPROVED} The reason given: {answer.reason}" if answer.reason else NOT_APPROVED
        return tool_message(call, "error", why, message_id=message_id, at=at)
    content = limit_content(answer.content)
    message = tool_message(call, answer.status, content, message_id=message_id, at=at)
    return message.model_copy(update={"stdout": answer.stdout, "stderr": answer.stderr})


def tool_message(
    call: ToolCall, status: ToolStatus, content: Json, *, message_id: str, at: datetime
) -> Message:
    """The result of a call, as a message."""
    return Message(
        id=message_id,
        role="tool",
        content=content,
        name=call.name,
        tool_call_id=call.id,
        tool_status=status,
        created_at=at,
    )


def limit_content(content: Json) -> Json:
    """The result of a client's tool, its texts cut to the limit of every tool's result."""
    if isinstance(content, list):
        return [
            {**part, "text": limit_content(part["text"])}
            if isinstance(part, dict) and isinstance(part.get("text"), str)
            else part
            for part in content
        ]
    return cut("" if content is None else str(content), TOOL_RETURN_CHARS_MAX)
