"""Runs that other agents called as rows."""

from __future__ import annotations

from libs.contracts.agent.runs import RunAccepted
from libs.contracts.bus_messages import JsonObject


def called_run_row(event: RunAccepted, org: str) -> JsonObject:
    """Who called a run, and what led to it."""
    caller = event.callers[-1]
    return {
        "run_id": event.run_id,
        "org": org,
        "conversation_id": event.originator_id,
        "caller_run_id": caller.run_id,
        "caller_conversation_id": caller.conversation_id,
        "waits": caller.waits,
        "callers": [one.model_dump(mode="json") for one in event.callers],
    }
