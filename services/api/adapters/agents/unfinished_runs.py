"""Which runs of a history have not ended, so that they can end with it."""

from __future__ import annotations

from datetime import datetime

from pydantic_core import from_json

from libs.contracts.appended_histories import PastEvent
from libs.contracts.bus_messages import JsonObject

ENDS = ("run.completed", "run.failed", "run.cancelled")
NO_USAGE: JsonObject = {
    "prompt_tokens": 0,
    "completion_tokens": 0,
    "cached_input_tokens": 0,
    "cache_write_tokens": 0,
    "reasoning_tokens": 0,
}


class UnfinishedRuns:
    """Notes the events of a conversation, and ends what is open at the end of them."""

    def __init__(self) -> None:
        self.active = ""
        self.queued: list[str] = []
        self.steps = 0
        self.pauses = False

    def note(self, topic: str, payload: str) -> None:
        """Take note of the next event."""
        if topic == "model.replied":
            self.steps += 1
        elif topic == "run.accepted":
            self.queued.append(from_json(payload)["run_id"])
        elif topic == "run.started":
            self.active, self.steps = from_json(payload)["run_id"], 0
            self.queued = [run_id for run_id in self.queued if run_id != self.active]
        elif topic in ENDS:
            ended = from_json(payload)["run_id"]
            self.queued = [run_id for run_id in self.queued if run_id != ended]
            self.active = "" if self.active == ended else self.active
        elif topic == "queued_runs.cancelled":
            gone = set(from_json(payload)["run_ids"])
            self.queued = [run_id for run_id in self.queued if run_id not in gone]
        elif topic == "heartbeats.paused":
            self.pauses = True
        elif topic in ("heartbeats.resumed", "heartbeat_pause.cancelled"):
            self.pauses = False

    def endings(self, at: datetime) -> list[PastEvent]:
        """The events by which everything that is open ends."""
        ended: list[PastEvent] = []
        if self.queued:
            payload: JsonObject = {"run_ids": [*self.queued]}
            ended.append(PastEvent(topic="queued_runs.cancelled", payload=payload, occurred_at=at))
        if self.active:
            payload = {
                "run_id": self.active,
                "usage": NO_USAGE,
                "step_count": self.steps,
                "total_duration_ns": 0,
            }
            ended.append(PastEvent(topic="run.cancelled", payload=payload, occurred_at=at))
        if self.pauses:
            ended.append(PastEvent(topic="heartbeat_pause.cancelled", payload={}, occurred_at=at))
        return ended
