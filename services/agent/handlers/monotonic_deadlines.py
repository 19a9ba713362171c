"""When deadlines pass that several processes watch, whatever clocks say that somebody sets."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from datetime import datetime
from typing import Protocol

from libs.bus.ports import Clock

# Who has not looked for longer does not know when something began that it sees now.
LOOKED_SECONDS_MAX = 10.0


class Deadline(Hashable, Protocol):
    """Something that ends after so many seconds: `until`, as the clock said of the process that
    recorded it."""

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        ...

    @property
    def until(self) -> datetime:
        """When it ends."""
        ...


class MonotonicDeadlines[D: Deadline]:
    """When those end that this process sees, by the clock that nobody sets.

    What was not there at the last look began since, so it lasts its whole length, whatever clocks
    say that are set or belong to another machine. Only what a process finds when it starts to look
    ends when its own clock says so, and never later than after its whole length. `seen_max` is how
    many a look sees at most.
    """

    def __init__(self, clock: Clock, seen_max: int) -> None:
        self.clock = clock
        self.seen_max = seen_max
        self.ends: dict[D, float] = {}
        self.looked_at = float("-inf")

    def over(self, seen: Sequence[D]) -> list[D]:
        """Those that are over, of all that there are."""
        now, known = self.clock.monotonic(), self.ends
        looked = now - self.looked_at <= LOOKED_SECONDS_MAX
        self.ends = {
            one: known[one] if one in known else now + self.seconds_left(one, begun_since=looked)
            for one in seen
        }
        # Where there are too many to see them all, some are seen late.
        self.looked_at = now if len(seen) < self.seen_max else float("-inf")
        return [one for one in seen if self.ends[one] <= now]

    def seconds_left(self, one: D, *, begun_since: bool) -> float:
        """How long something lasts that is seen for the first time."""
        if begun_since:
            return one.seconds
        return min(max((one.until - self.clock.now()).total_seconds(), 0.0), one.seconds)
