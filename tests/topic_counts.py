"""What happened in a history, counted from its events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

WORDS = {
    "run.accepted": "runs",
    "tool_call.started": "tool calls",
    "tool_calls.started": "parallel steps",
    "tool_call.interrupted": "calls interrupted",
    "approval.requested": "approvals asked",
    "approval.answered": "approvals answered",
    "approval.expired": "approvals expired",
    "approval.cancelled": "approvals cancelled",
    "run.cancelled": "cancels",
    "queued_runs.cancelled": "cancels of waiting runs",
    "conversation.compacted": "compactions",
    "context.cleared": "contexts cleared",
    "conversation.created": "conversations and forks",
    "conversation.deleted": "deletions",
    "heartbeats.paused": "pauses",
}


def told_by(topics: Iterable[str]) -> Counter[str]:
    """How often each kind of thing happened."""
    return Counter(WORDS[topic] for topic in topics if topic in WORDS)
