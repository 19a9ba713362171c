"""Wait for what must come true, never for a time."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable

POLL_SECONDS = 0.01
POLL_SECONDS_MAX = 0.1
POLL_SHARE = 0.05  # of what was waited: to look is work for those who are waited for
BUSY_MACHINE_FACTOR = 4.0  # how much longer anything may take beside much else
TRIES_MAX = 3
OVERLOADED = 4.0  # processes that want to run, for each processor


def pause(waited: float) -> float:
    """How long to wait before the next look: what comes at once is seen at once."""
    return min(max(POLL_SECONDS, POLL_SHARE * waited), POLL_SECONDS_MAX)


async def wait_for[T](
    what: str, ask: Callable[[], Awaitable[T] | T], seconds_max: float = 30.0
) -> T:
    """The first truthy answer; asks until then, at most so long, and on a machine that is busy
    `BUSY_MACHINE_FACTOR` times that: what never comes is only told later."""
    began = time.monotonic()
    while True:
        answer = ask()
        if isinstance(answer, Awaitable):
            answer = await answer
        if answer:
            return answer
        waited = time.monotonic() - began
        assert waited < BUSY_MACHINE_FACTOR * seconds_max, f"{what}: not within {waited:.0f} s"
        await asyncio.sleep(pause(waited))


async def in_time(what: str, measure: Callable[[], Awaitable[float] | float], most: float) -> None:
    """Something takes less than so many seconds: `measure` does it and says how long it took. What
    took longer is done again: a busy machine makes one of a few slow, what is wrong makes all. On
    one that is overloaded nothing is said."""
    took: list[float] = []
    while len(took) < TRIES_MAX:
        measured = measure()
        took.append(await measured if isinstance(measured, Awaitable) else measured)
        if took[-1] < most:
            return
    assert overloaded(), f"{what}: took {took}, not less than {most} s"


def overloaded() -> bool:
    """Whether many processes wait for each processor, as beside another test run."""
    return os.getloadavg()[0] > OVERLOADED * (os.cpu_count() or 1)
