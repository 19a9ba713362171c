"""Loops that run as long as the service does, and outlive whatever goes wrong in one turn."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from libs.bus.ports import BusUnavailable, Clock
from libs.eventstore.ports import StoreUnavailable

log = logging.getLogger(__name__)


class Notification:
    """Rung when there may be something to do; `wait` also returns after a while without."""

    def __init__(self) -> None:
        self.notified = asyncio.Event()

    def notify(self) -> None:
        """There may be something to do."""
        self.notified.set()

    async def wait(self, seconds: float) -> None:
        """Return when notified, or after `seconds` at the latest."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.notified.wait()
        self.notified.clear()


async def forever(name: str, turn: Callable[[], Awaitable[None]], clock: Clock) -> None:
    """Take one turn after the other. A process edge: a failed turn is logged and tried again."""
    while True:
        try:
            await turn()
        except (StoreUnavailable, BusUnavailable) as problem:
            log.warning("%s waits: %s", name, problem)
            await clock.sleep(0.5)
        except Exception:
            log.exception("%s failed", name)
            await clock.sleep(1.0)
