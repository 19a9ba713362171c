"""Wait for what must come true, never for a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

POLL_SECONDS = 0.01
POLL_SECONDS_MAX = 0.1
POLL_SHARE = 0.05  # of what was waited: to look is work for those who are waited for


def pause(waited: float) -> float:
    """How long to wait before the next look: what comes at once is seen at once."""
    return min(max(POLL_SECONDS, POLL_SHARE * waited), POLL_SECONDS_MAX)


async def wait_for[T](
    what: str, ask: Callable[[], Awaitable[T] | T], seconds_max: float = 10.0
) -> T:
    """The first truthy answer; asks until then, at most so long."""
    began = time.monotonic()
    while True:
        answer = ask()
        if isinstance(answer, Awaitable):
            answer = await answer
        if answer:
            return answer
        waited = time.monotonic() - began
        assert waited < seconds_max, f"{what}: not within {seconds_max} s"
        await asyncio.sleep(pause(waited))
