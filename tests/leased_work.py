"""What tests of leased work have in common."""

from __future__ import annotations

import asyncio
from typing import Any

from libs.work.leased_work import LeasedWork


async def finish(work: LeasedWork[Any]) -> None:
    """Let all attempts end that are being made, and those that begin thereupon. An attempt may be
    cancelled; nothing else may go wrong that the engine does not handle."""
    while going_on := [*work.tasks.values(), *work.asides]:
        for ended in await asyncio.gather(*going_on, return_exceptions=True):
            assert not isinstance(ended, Exception), ended
        await asyncio.sleep(0)


async def sweep(work: LeasedWork[Any]) -> None:
    """Sweep once, and finish all that begins thereupon."""
    await work.sweep()
    await finish(work)
