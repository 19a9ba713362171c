"""Loops that run as long as the service does, and outlive whatever goes wrong in one turn."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from libs.bus.ports import BusUnavailable, Clock
from libs.eventstore.ports import EventStore, Fence, StoreUnavailable

log = logging.getLogger(__name__)


class Bell:
    """Rung when there may be something to do; `wait` also returns after a while without."""

    def __init__(self) -> None:
        self.rung = asyncio.Event()

    def ring(self) -> None:
        """There may be something to do."""
        self.rung.set()

    async def wait(self, seconds: float) -> None:
        """Until it rings, at most so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.rung.wait()
        self.rung.clear()


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


class Leadership:
    """One process of a service does a job: the one that holds the job's lease."""

    def __init__(self, store: EventStore, job: str) -> None:
        self.store = store
        self.job = job
        self.epoch: int | None = None

    async def held(self) -> bool:
        """Whether this process is the one; takes the lease if it is free."""
        if self.epoch is None:
            self.epoch = await self.store.take_lease(self.job)
        return self.epoch is not None

    async def give_back(self) -> None:
        """Let another process do the job at once."""
        if self.epoch is not None:
            fence, self.epoch = Fence(self.job, self.epoch), None
            with contextlib.suppress(StoreUnavailable):
                await self.store.release_lease(fence)

    def keep(self, still_held: set[str]) -> None:
        """Forget the lease if a renewal did not find it."""
        if self.job not in still_held:
            self.epoch = None
