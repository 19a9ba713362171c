"""A run as its followers see it: its rows, and the bus on which they are told of it."""

from __future__ import annotations

import json
from typing import Any

from libs.bus.in_memory import InMemoryBus, InMemoryNetwork
from libs.contracts.bus_messages import JsonObject, delta_subject
from services.api.adapters.conversations.run_follower import (
    RunFollower,
)
from services.api.adapters.conversations.run_follower_queries import AnswerPart, RunRow

ORG, RUN = "org-1", "run-1"


TEXT = "One two three four"


PIECES = [("text", 4)] * 4 + [("text", 2)]


END = {"status": "completed", "stop_reason": "end_turn", "usage": {"total_tokens": 3}}


def v1_message(text: str) -> JsonObject:
    return {"message_type": "assistant_message", "id": "message-1", "content": text}


class Rows:
    """What Postgres says: nothing but that the run is running, until a test says more."""

    def __init__(self) -> None:
        self.row: RunRow | None = RunRow("running", None, None, None, True, True)
        self.answer: list[AnswerPart] = []
        self.reads = 0

    async def run_end(self, org: str, run_id: str) -> RunRow | None:
        self.reads += 1
        return self.row

    async def run_answer(self, org: str, run_id: str) -> list[AnswerPart]:
        return self.answer

    def record(self, *, ended: bool = False) -> None:
        self.answer = [AnswerPart([v1_message(TEXT)], 2, list(PIECES))]  # type: ignore[arg-type]
        if ended:
            self.row = RunRow("completed", "end_turn", END["usage"], None, True, True)  # type: ignore[arg-type]


class Scene:
    """A run's publisher, and the rows."""

    def __init__(self) -> None:
        self.bus = InMemoryBus(InMemoryNetwork())
        self.rows = Rows()

    def follower(self, last_sent: int = 1) -> RunFollower:
        return RunFollower(self.rows, self.bus, ORG, RUN, last_sent=last_sent)  # type: ignore[arg-type]

    async def chunk(self, number: int, after: int | None = None) -> None:
        text = TEXT[4 * (number - 2) : 4 * (number - 1)]
        after = number - 1 if after is None else after
        await self.publish("token", {"number": number, "after": after, "chunk": v1_message(text)})

    async def end(self, number: int) -> None:
        await self.publish("progress", {"number": number, "after": number - 1, "end": END})

    async def publish(self, verb: str, delta: dict[str, Any]) -> None:
        subject = delta_subject("agent", "run", verb, ORG, RUN)
        await self.bus.publish_delta(subject, json.dumps(delta).encode())
