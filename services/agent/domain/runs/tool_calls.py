"""The tool calls of a step: which start, what comes of them, and what the model is shown of it.

Each function is about the conversation's active run; what follows from it is in `run_progress`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from libs.contracts.agent.conversations import Message, ToolCall
from libs.contracts.agent.steps import (
    StartedCall,
    ToolCallFinished,
    ToolCallForbidden,
    ToolCallInterrupted,
    ToolCallRefused,
    ToolCallsStarted,
    ToolCallStarted,
)
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.runs.step_results import ToolResult, result_message


def start(conversation: Conversation, calls: Sequence[ToolCall], *, at: datetime) -> None:
    """Record that tools are about to run, side by side."""
    active = conversation.state.active_run
    if active is None or not calls or not set(calls) <= set(active.startable_calls):
        return
    if len(calls) == 1:
        record_start(conversation, calls[0], at=at)
        return
    started = [StartedCall(tool_call_id=call.id, tool=call.name) for call in calls]
    conversation.record(
        ToolCallsStarted, at=at, run_id=active.run.id, step_id=active.step_id, calls=started
    )


def record_start(conversation: Conversation, call: ToolCall, *, at: datetime) -> None:
    """Record the start of one call."""
    active = conversation.running()
    conversation.record(
        ToolCallStarted,
        at=at,
        run_id=active.run.id,
        step_id=active.step_id,
        tool_call_id=call.id,
        tool=call.name,
    )


def refuse(
    conversation: Conversation, call: ToolCall, why: str, *, message_id: str, at: datetime
) -> None:
    """Record that a call is not carried out, and show the model why."""
    active = conversation.running()
    message = result_message(call, ToolResult("error", why), message_id=message_id, at=at)
    early = active.follows_unshown(call.id)
    conversation.record(
        ToolCallRefused,
        at=at,
        run_id=active.run.id,
        step_id=active.step_id,
        tool_call_id=call.id,
        tool=call.name,
        held=message if early else None,
    )
    if not early:
        show(conversation, message, at=at)


def finish(
    conversation: Conversation,
    call: ToolCall,
    result: ToolResult,
    *,
    message_id: str,
    at: datetime,
) -> None:
    """Record the result of a call, and show it to the model."""
    active = conversation.running()
    message = result_message(call, result, message_id=message_id, at=at)
    early = active.follows_unshown(call.id)
    if result.forbidden:
        conversation.record(
            ToolCallForbidden,
            at=at,
            run_id=active.run.id,
            step_id=active.step_id,
            tool_call_id=call.id,
            tool=call.name,
            reason=result.text,
        )
    conversation.record(
        ToolCallFinished,
        at=at,
        run_id=active.run.id,
        step_id=active.step_id,
        tool_call_id=call.id,
        status=result.status,
        held=message if early else None,
        called=[*result.called],
    )
    if not early:
        show(conversation, message, at=at)


def interrupt(
    conversation: Conversation, call: ToolCall, why: str, *, message_id: str, at: datetime
) -> None:
    """Record a call as interrupted and show the model so, without going on."""
    active = conversation.running()
    message = result_message(call, ToolResult("error", why), message_id=message_id, at=at)
    early = active.follows_unshown(call.id)
    conversation.record(
        ToolCallInterrupted,
        at=at,
        run_id=active.run.id,
        step_id=active.step_id,
        tool_call_id=call.id,
        held=message if early else None,
    )
    if not early:
        show(conversation, message, at=at)


def show(conversation: Conversation, result: Message, *, at: datetime) -> None:
    """Put the result of a call into the history, and those that were held because of it. They are
    of now: messages are listed by their time."""
    conversation.append_in_step(result, at=at)
    active = conversation.running()
    while (held := active.next_held) is not None:
        conversation.append_in_step(held.model_copy(update={"created_at": at}), at=at)
