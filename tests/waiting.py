"""Wait for what must come true, never for a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

POLL_SECONDS = 0.01


async def wait_for[T](
    what: str, ask: Callable[[], Awaitable[T] | T], seconds_max: float = 10.0
) -> T:
    """The first truthy answer; asks until then, at most so long."""
    deadline = time.monotonic() + seconds_max
    while True:
        answer = ask()
        if isinstance(answer, Awaitable):
            answer = await answer
        if answer:
            return answer
        assert time.monotonic() < deadline, f"{what}: not within {seconds_max} s"
        await asyncio.sleep(POLL_SECONDS)
