"""The clock and the ids of all tests that need no real ones."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from tests.unit.given import NOW

SLEEP_SECONDS = 3600  # longer than any test


class ManualClock:
    """A clock that begins at `NOW`. Its time passes when a test adds to `seconds` or when the code
    under test sleeps, which takes no real time; `slept` lists those sleeps. `ahead` is by how much
    the wall clock is wrong, which people may set."""

    def __init__(self, seconds: float = 0.0, ahead: float = 0.0) -> None:
        self.seconds, self.ahead = seconds, ahead
        self.slept: list[float] = []

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.seconds + self.ahead)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds
        await asyncio.sleep(0)


class StandingClock(ManualClock):
    """A clock that only a test moves: a sleep in the code under test does not end."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(SLEEP_SECONDS)


class CountingIds:
    """The ids `<prefix>-1`, `<prefix>-2` and so on, counted over all prefixes."""

    def __init__(self) -> None:
        self.count = 0

    def new(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}-{self.count}"
