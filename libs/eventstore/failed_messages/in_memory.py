"""Attempts and dead letters in memory: the same contract, for tests and for the simulator."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from libs.contracts.bus_messages import PARKED, JsonObject
from libs.eventstore.failed_messages.ports import (
    ATTEMPTS,
    DEAD_LETTERS,
    REPLAYED,
    REPLAYING,
    Attempt,
    DeadLetter,
)
from libs.eventstore.in_memory_database import InMemorySchema


class InMemoryDeadLetterStore:
    """Keeps the contract of `ports.DeadLetterStore` in the schema of a service."""

    def __init__(self, schema: InMemorySchema, clock: Callable[[], float]) -> None:
        self.schema = schema
        self.clock = clock

    @property
    def attempts(self) -> dict[tuple[Any, ...], JsonObject]:
        """The counted attempts, by message id."""
        return self.schema.tables.setdefault(ATTEMPTS.name, {})

    def write(self, message_id: str, attempts: int, rest_seconds: float) -> Attempt:
        """Count, and let the message rest."""
        now = self.clock()
        row = self.attempts.setdefault((message_id,), {"message_id": message_id, "first_at": now})
        row |= {"attempts": attempts, "last_at": now, "free_at": now + rest_seconds}
        return Attempt(attempts, datetime.fromtimestamp(number_of(row, "first_at"), UTC))

    async def begin(
        self,
        message_id: str,
        *,
        known: int,
        hold_seconds: float,
        unquarantined_max: int | None = None,
    ) -> Attempt:
        """Begin the next attempt; see `ports.DeadLetterStore.begin`."""
        reply = self.schema.inbox.get(message_id)
        if reply is not None:
            return Attempt(reply_json=reply)
        row = self.attempts.get((message_id,))
        before = int(number_of(row, "attempts")) if row else 0
        wait = number_of(row, "free_at") - self.clock() if row else 0.0
        if wait > 0:
            return Attempt(wait_seconds=wait)
        if row and unquarantined_max is not None and before >= unquarantined_max:
            return Attempt(needs_quarantine=True)
        return self.write(message_id, max(before, known) + 1, hold_seconds)

    async def hold(self, message_id: str, seconds: float) -> None:
        """Extend the hold: the process that makes this attempt is alive."""
        if (message_id,) in self.attempts:
            self.attempts[message_id,]["free_at"] = self.clock() + seconds

    async def record_failure(self, message_id: str, number: int, rest_seconds: float) -> Attempt:
        """Record that this attempt has failed; returns what is counted now."""
        row = self.attempts.get((message_id,))
        before = int(number_of(row, "attempts")) if row else 0
        return self.write(message_id, max(before, number), rest_seconds)

    async def uncount(self, message_id: str) -> None:
        """The attempt that was begun does not count."""
        row = self.attempts.get((message_id,))
        if row:
            row |= {"attempts": number_of(row, "attempts") - 1, "free_at": self.clock()}

    async def forget(self, message_id: str) -> None:
        self.attempts.pop((message_id,), None)

    async def has_trouble(self, attempts: int, seconds: float) -> bool:
        since = self.clock() - seconds
        return any(
            number_of(row, "attempts") >= attempts and number_of(row, "last_at") > since
            for row in self.attempts.values()
        )

    async def forget_older(self, seconds: float) -> None:
        before = self.clock() - seconds
        for key, row in list(self.attempts.items()):
            if number_of(row, "last_at") < before:
                del self.attempts[key]

    async def find(self, letter_id: str) -> DeadLetter | None:
        row: Any = self.letter(letter_id)
        if row is None:
            return None
        times = {name: datetime.fromisoformat(row[name]) for name in TIMES}
        return DeadLetter(**{**row, **times})

    async def reopen(self, letter_id: str) -> None:
        """Let the message of a letter take effect after all."""
        row = self.letter(letter_id)
        if row is None or row["status"] == REPLAYED:
            return
        row["status"] = REPLAYING
        message_id = str(row["message_id"])
        await self.forget(message_id)
        reply = json.loads(self.schema.inbox.get(message_id, "{}"))
        if reply.get("code") == PARKED:
            del self.schema.inbox[message_id], self.schema.handled_at[message_id]

    def letter(self, letter_id: str) -> JsonObject | None:
        """The row of a letter."""
        return self.schema.tables.get(DEAD_LETTERS.name, {}).get((letter_id,))


TIMES = ("created_at", "first_at", "last_at")


def number_of(row: JsonObject | None, column: str) -> float:
    """A column that holds a number."""
    value = (row or {})[column]
    assert isinstance(value, int | float)
    return value
