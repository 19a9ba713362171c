"""The language of pauses: an agent does nothing for a while, then goes on by itself."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from libs.contracts.agent.conversations import ConversationEvent, RunEvent


class HeartbeatsPaused(RunEvent):
    """The agent asked for a pause, which ends its run at once; unless somebody cancels, a run of
    its own begins when the pause is over."""

    topic: ClassVar[str] = "heartbeats.paused"
    agent_id: str
    tool_call_id: str
    minutes: int
    until: datetime


class HeartbeatsResumed(RunEvent):
    """The pause is over, and this run begins."""

    topic: ClassVar[str] = "heartbeats.resumed"


class HeartbeatPauseCancelled(ConversationEvent):
    """The pause was cancelled: no run follows it."""

    topic: ClassVar[str] = "heartbeat_pause.cancelled"
