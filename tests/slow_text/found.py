"""Which requests take too much of the processor."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from tests.slow_text.fillings import FILLINGS
from tests.slow_text.requests import Document, Field
from tests.slow_text.served import nothing_behind, seconds_of

SECONDS_MAX = 0.5
# Each filling meets another field each time.
STEP = 7


@dataclass(frozen=True, slots=True)
class Tried:
    """A request, and what it took."""

    field: Field
    filling: str
    seconds: float
    status: int

    def __str__(self) -> str:
        return f"{self.seconds:.3f} s, {self.status}: {self.field} of {self.filling!r}"


def tried(fillings: int, path: str = "") -> Iterator[Tried]:
    """Ask with so many fillings in each field of the operations whose path has this in it. What
    takes too long is asked again: somebody else may have had the processor."""
    app = nothing_behind()
    with asyncio.Runner() as runner:
        for number, field in enumerate(Document().fields()):
            for turn in range(fillings if path in field.path else 0):
                filling = FILLINGS[(number * STEP + turn) % len(FILLINGS)]
                seconds, status = seconds_of(runner, app, field, filling)
                if seconds > SECONDS_MAX:
                    seconds = min(seconds, seconds_of(runner, app, field, filling)[0])
                yield Tried(field, filling, seconds, status)


def slow_fields(fillings: int) -> list[str]:
    """The requests that take too much."""
    return [str(each) for each in tried(fillings) if each.seconds > SECONDS_MAX]
