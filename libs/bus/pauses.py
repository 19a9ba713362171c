"""Long work by small pieces: between them everybody else of the process has a turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable

AT_ONCE_MAX = 10


async def with_pauses[T](things: Iterable[T], at_once_max: int = AT_ONCE_MAX) -> AsyncGenerator[T]:
    """Yield each of these things; after every few of them, what else is ready in this process runs
    first."""
    for number, thing in enumerate(things, start=1):
        yield thing
        if number % at_once_max == 0:
            await asyncio.sleep(0)
