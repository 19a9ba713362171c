"""The tool calls of a step: which start, what comes of them, and what the model is shown of it.

Each function decides about the conversation's active run. They are safe to repeat: what is recorded
already is not recorded twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from libs.contracts.agent.conversations import (
    Message,
    StartedCall,
    ToolCall,
    ToolCallFinished,
    ToolCallForbidden,
    ToolCallInterrupted,
    ToolCallRefused,
    ToolCallsStarted,
    ToolCallStarted,
)
from services.agent.domain.conversations.active_run import INTERRUPTED, ActiveRun
from services.agent.domain.conversations.conversation_interface import DecidingConversation
from services.agent.domain.runs import heartbeat_pauses
from services.agent.domain.runs.step_results import ToolResult, result_message


def start(conversation: DecidingConversation, calls: Sequence[ToolCall], *, at: datetime) -> None:
    """Record that tools are about to run, side by side."""
    active = conversation.state.turn
    if active is None or not calls or not set(calls) <= set(active.startable_calls):
        return
    if len(calls) == 1:
        record_start(conversation, calls[0], at=at)
        return
    started = [StartedCall(tool_call_id=call.id, tool=call.name) for call in calls]
    conversation.happened(
        ToolCallsStarted, at=at, run_id=active.run.id, step_id=active.step_id, calls=started
    )


def record_start(conversation: DecidingConversation, call: ToolCall, *, at: datetime) -> None:
    """Record the start of one call."""
    active = conversation.running()
    conversation.happened(
        ToolCallStarted,
        at=at,
        run_id=active.run.id,
        step_id=active.step_id,
        tool_call_id=call.id,
        tool=call.name,
    )


def refuse(
    conversation: DecidingConversation, call: ToolCall, why: str, *, message_id: str, at: datetime
) -> None:
    """Record that the rules do not allow a call, tell the model why, and what follows."""
    active = conversation.state.turn
    if active is None or active.startable_calls[:1] != (call,):
        return
    message = result_message(call, ToolResult("error", why), message_id=message_id, at=at)
    early = active.follows_unshown(call.id)
    conversation.happened(
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
    conversation.go_on(at=at)


def returned(
    conversation: DecidingConversation,
    step_id: str,
    call: ToolCall,
    result: ToolResult,
    *,
    message_id: str,
    at: datetime,
) -> None:
    """Record a tool's result, and what follows from it."""
    active = awaiting(conversation, step_id, call)
    if active is None:
        return
    message = result_message(call, result, message_id=message_id, at=at)
    early = active.follows_unshown(call.id)
    if result.forbidden:
        conversation.happened(
            ToolCallForbidden,
            at=at,
            run_id=active.run.id,
            step_id=step_id,
            tool_call_id=call.id,
            tool=call.name,
            reason=result.text,
        )
    conversation.happened(
        ToolCallFinished,
        at=at,
        run_id=active.run.id,
        step_id=step_id,
        tool_call_id=call.id,
        status=result.status,
        held=message if early else None,
        called=[*result.called],
    )
    if not early:
        show(conversation, message, at=at)
    if result.pause_minutes is not None:
        heartbeat_pauses.pause(conversation, call.id, result.pause_minutes, at=at)
    conversation.go_on(at=at)


def interrupted(
    conversation: DecidingConversation,
    step_id: str,
    call: ToolCall,
    *,
    message_id: str,
    at: datetime,
) -> None:
    """Record that nobody knows what a tool did, and tell the model so."""
    if awaiting(conversation, step_id, call) is None:
        return
    interrupt(conversation, call, INTERRUPTED, message_id=message_id, at=at)
    conversation.go_on(at=at)


def interrupt_all(
    conversation: DecidingConversation, why: str, *, message_ids: Iterable[str], at: datetime
) -> None:
    """Give every call without a result one that says why there is none. What the client sent is
    shown all the same."""
    active = conversation.running()
    fresh = iter(message_ids)
    conversation.settle(at=at)
    while (pending := active.open_call) is not None:
        if pending.state == "waiting":
            record_start(conversation, pending.call, at=at)
        interrupt(conversation, pending.call, why, message_id=next(fresh), at=at)
    conversation.settle(at=at)


def interrupt(
    conversation: DecidingConversation, call: ToolCall, why: str, *, message_id: str, at: datetime
) -> None:
    """Record a call as interrupted and show the model so, without going on."""
    active = conversation.running()
    message = result_message(call, ToolResult("error", why), message_id=message_id, at=at)
    early = active.follows_unshown(call.id)
    conversation.happened(
        ToolCallInterrupted,
        at=at,
        run_id=active.run.id,
        step_id=active.step_id,
        tool_call_id=call.id,
        held=message if early else None,
    )
    if not early:
        show(conversation, message, at=at)


def show(conversation: DecidingConversation, result: Message, *, at: datetime) -> None:
    """Put the result of a call into the history, and those that were held because of it. They are
    of now: messages are listed by their time."""
    conversation.append_in_step(result, at=at)
    active = conversation.running()
    while (held := active.next_held) is not None:
        conversation.append_in_step(held.model_copy(update={"created_at": at}), at=at)


def awaiting(conversation: DecidingConversation, step_id: str, call: ToolCall) -> ActiveRun | None:
    """The active run, if it waits for the result of this very call."""
    active = conversation.state.turn
    if active is None or active.step_id != step_id:
        return None
    return active if call in active.started_calls else None
