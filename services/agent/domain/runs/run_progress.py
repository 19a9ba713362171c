"""Progress of a conversation's active run, and the start of the next one.

The functions are safe to repeat: what is recorded already is not recorded twice.
"""

from __future__ import annotations

from collections.abc import Container
from datetime import datetime

from libs.contracts.agent.runs import ReviewableRunEnded, RunCompleted, RunStarted
from libs.contracts.bus_messages import Json
from services.agent.domain.conversations.active_run import end_fields, step_id_of
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.conversations.conversation_state import ConversationState
from services.agent.domain.runs import client_call_answers, tool_calls
from services.agent.domain.runs.agent_loops import loop_of
from services.agent.domain.runs.compaction import clear, compaction_action
from services.agent.domain.runs.run_actions import (
    AskClient,
    EndRun,
    NextAction,
    ShowAnswer,
    ShowFollowUps,
    StartTools,
)


def next_action(state: ConversationState) -> NextAction | None:
    """The next action now; None when no run is active."""
    active = state.active_run
    if active is None:
        return None
    if active.compaction is not None:
        return compaction_action(active)
    return loop_of(active.agent_type).next_action(active)


def start_next(conversation: Conversation, *, at: datetime) -> None:
    """Start the run that waits longest, if none is active and no call waits for the client."""
    state = conversation.state
    if state.active_run is not None or state.approval is not None or not state.queue:
        return
    waiting = state.queue[0]
    run_id = waiting.run.id
    conversation.record(RunStarted, at=at, run_id=run_id, agent_id=state.agent_id)
    if waiting.autoclear:
        clear(conversation, at=at)
    own = {message.otid for message in waiting.messages}
    said = messages_without_answer(state, own) if waiting.unless_said else []
    for message in waiting.messages:
        if (message.otid, message.content) not in said:
            step_id = step_id_of(run_id, 1)
            conversation.append(message, at=at, run_id=run_id, step_id=step_id, sent=True)


def messages_without_answer(
    state: ConversationState, own: Container[str | None]
) -> list[tuple[str | None, Json]]:
    """The otids and contents of the messages that the model is shown and has not answered yet: it
    has only called tools since, and for nobody else. `own` are the otids of the run that asks."""
    found: list[tuple[str | None, Json]] = []
    has_gone_on = False
    for message in reversed(state.window):
        if message.otid and message.otid in own:
            found.append((message.otid, message.content))
        elif message.role == "system" and not message.otid:
            break
        elif message.role == "assistant":
            if not message.tool_calls:
                break
            has_gone_on = True
        elif message.role in ("user", "system") and has_gone_on:
            break
    return found


def go_on(conversation: Conversation, *, at: datetime) -> None:
    """Record what follows by itself: that tool calls start, or that the run ends."""
    settle(conversation, at=at)
    match next_action(conversation.state):
        case StartTools(calls):
            tool_calls.start(conversation, calls, at=at)
        case EndRun(stop_reason):
            complete(conversation, stop_reason, at=at)
        case _:
            pass


def settle(conversation: Conversation, *, at: datetime) -> None:
    """Record what the client has a part in: what it answered, and that calls wait for it."""
    while True:
        match next_action(conversation.state):
            case ShowAnswer(pending):
                client_call_answers.show_answer(conversation, pending, at=at)
            case ShowFollowUps():
                client_call_answers.show_follow_ups(conversation, at=at)
            case AskClient():
                client_call_answers.ask(conversation, at=at)
                complete(conversation, "requires_approval", at=at)
            case _:
                return


def complete(conversation: Conversation, stop_reason: str, *, at: datetime) -> None:
    """End the run; the next one starts."""
    active = conversation.running()
    conversation.record(
        RunCompleted,
        at=at,
        run_id=active.run.id,
        stop_reason=stop_reason,
        context_tokens=active.context_tokens,
        **end_fields(active, at),
    )
    if active.sleeptime:
        agent_id = conversation.state.agent_id
        conversation.record(ReviewableRunEnded, at=at, run_id=active.run.id, agent_id=agent_id)
    start_next(conversation, at=at)
