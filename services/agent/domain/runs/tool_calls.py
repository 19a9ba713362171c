"""The tool calls of a step: which start, what comes of them, and what the model is shown of it.

Each function is about the conversation's active run; what follows from it is in `run_progress`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

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
from libs.contracts.bus_messages import Event
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
    record_of_call(conversation, ToolCallStarted, call, at=at, tool=call.name)


def refuse(
    conversation: Conversation, call: ToolCall, why: str, *, message_id: str, at: datetime
) -> None:
    """Record that a call is not carried out, and show the model why."""
    message = result_message(call, ToolResult("error", why), message_id=message_id, at=at)
    end_call(conversation, ToolCallRefused, call, message, at=at, tool=call.name)


def finish(
    conversation: Conversation,
    call: ToolCall,
    result: ToolResult,
    *,
    message_id: str,
    at: datetime,
) -> None:
    """Record the result of a call, and show it to the model."""
    if result.forbidden:
        record_of_call(
            conversation, ToolCallForbidden, call, at=at, tool=call.name, reason=result.text
        )
    message = result_message(call, result, message_id=message_id, at=at)
    fields = {"status": result.status, "called": [*result.called]}
    end_call(conversation, ToolCallFinished, call, message, at=at, **fields)


def interrupt(
    conversation: Conversation, call: ToolCall, why: str, *, message_id: str, at: datetime
) -> None:
    """Record a call as interrupted and show the model so, without going on."""
    message = result_message(call, ToolResult("error", why), message_id=message_id, at=at)
    end_call(conversation, ToolCallInterrupted, call, message, at=at)


def end_call(
    conversation: Conversation,
    event: type[Event],
    call: ToolCall,
    message: Message,
    *,
    at: datetime,
    **fields: Any,
) -> None:
    """Record the end of a call, and show its message unless a call before it has none yet: then the
    message is held."""
    early = conversation.running().follows_unshown(call.id)
    held = message if early else None
    record_of_call(conversation, event, call, at=at, held=held, **fields)
    if not early:
        show(conversation, message, at=at)


def record_of_call(
    conversation: Conversation, event: type[Event], call: ToolCall, *, at: datetime, **fields: Any
) -> None:
    """Record an event about a call of the running step."""
    run_id, step_id = conversation.running().run.id, conversation.running().step_id
    conversation.record(
        event, at=at, run_id=run_id, step_id=step_id, tool_call_id=call.id, **fields
    )


def show(conversation: Conversation, result: Message, *, at: datetime) -> None:
    """Put the result of a call into the history, and those that were held because of it. They are
    of now: messages are listed by their time."""
    conversation.append_in_step(result, at=at)
    active = conversation.running()
    while (held := active.next_held) is not None:
        conversation.append_in_step(held.model_copy(update={"created_at": at}), at=at)
