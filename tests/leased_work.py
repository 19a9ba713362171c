"""What tests of leased work have in common."""

from __future__ import annotations

import asyncio
from typing import Any

from libs.work.leased_work import LeasedWork


async def finish(work: LeasedWork[Any]) -> None:
    """Let all attempts end that are being made, and those that begin thereupon."""
    while going_on := [*work.tasks.values(), *work.asides]:
        await asyncio.gather(*going_on, return_exceptions=True)
        await asyncio.sleep(0)


async def sweep(work: LeasedWork[Any]) -> None:
    """Sweep once, and finish all that begins thereupon."""
    await work.sweep()
    await finish(work)
