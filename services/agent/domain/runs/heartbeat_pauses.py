"""Pauses: an agent asks for one with `pause_heartbeats`, and goes on by itself when it is over."""

from __future__ import annotations

from datetime import datetime, timedelta

from libs.contracts.agent.conversations import Message
from libs.contracts.agent.runs import (
    HeartbeatPauseCancelled,
    HeartbeatsPaused,
    StartRun,
)
from libs.contracts.letta.enums import RunStatus
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.conversations.conversation_state import HeartbeatPause

MINUTES_DEFAULT = 2
MINUTES_MIN = 1
MINUTES_MAX = 60


def pause_minutes(asked: object) -> int:
    """The length of a requested pause in minutes: the default for anything that is no number."""
    try:
        minutes = float(asked) if isinstance(asked, str | float) else asked
    except ValueError:
        return MINUTES_DEFAULT
    if not isinstance(minutes, int | float) or isinstance(minutes, bool) or minutes != minutes:
        return MINUTES_DEFAULT
    return int(min(max(minutes, MINUTES_MIN), MINUTES_MAX))


def pause(conversation: Conversation, tool_call_id: str, minutes: int, *, at: datetime) -> None:
    """Record that the active run asked for a pause, in place of one that was asked for before."""
    conversation.record(
        HeartbeatsPaused,
        at=at,
        run_id=conversation.running().run.id,
        agent_id=conversation.state.agent_id,
        tool_call_id=tool_call_id,
        minutes=minutes,
        until=at + timedelta(minutes=minutes),
    )


def cancel(conversation: Conversation, *, at: datetime) -> None:
    """Record that no run follows the pause, if there is one."""
    if conversation.state.pause is not None:
        conversation.record(HeartbeatPauseCancelled, at=at)


def following_run(
    agent_id: str, paused: HeartbeatPause, run_id: str, message_id: str, at: datetime
) -> StartRun:
    """The run that follows a pause: like the one that asked for it, but nobody waits for it."""
    run = paused.run.model_copy(
        update={
            "id": run_id,
            "status": RunStatus.created,
            "created_at": at,
            "background": True,
            "metadata": {"run_type": "heartbeat"},
            "callback_url": None,
        }
    )
    words = f"[Automatic message] Your pause of {paused.minutes} min is over."
    message = Message(id=message_id, role="user", content=words, created_at=at)
    return StartRun(
        agent_id=agent_id,
        run=run,
        messages=[message],
        max_steps=paused.max_steps,
        request_hash=f"heartbeat {run_id}",
    )
