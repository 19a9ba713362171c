"""What a process does under leases: a task for each attempt, ended when its lease is another's.

Runs of agents (`services.agent.engine.run_scheduling`) and long work (`leased_work`) are two kinds
of it. The lease of an attempt says where it is recorded what becomes of it.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import Any, Protocol

from libs.bus.ports import Clock
from libs.bus.service_host import Service
from libs.bus.unknown_version_delays import LEFT_ALONE_SECONDS
from libs.eventstore.ports import Fence, StoreUnavailable

ASIDE_SECONDS_MAX = 5.0
LEFT_MAX = 1_000


class Attempt(Protocol):
    """An attempt at something under a lease."""

    @property
    def fence(self) -> Fence:
        """The lease that it is made under."""


class LeasedTasks[A: Attempt](ABC):
    """The attempts that this process makes. When it ends it lets them go on for
    `drain_seconds_max` before it cancels them."""

    drain_seconds_max = 0.0

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.tasks: dict[A, asyncio.Task[Any]] = {}
        self.asides: set[asyncio.Task[None]] = set()
        self.missing: set[A] = set()
        self.left_until: dict[str, float] = {}  # keys of leases of what only newer processes read
        self.cancelled_unseen = False
        self.looking = False
        self.stopping = False

    @abstractmethod
    async def sweep(self) -> None:
        """Begin attempts at what nobody has a lease for."""

    @abstractmethod
    async def end_cancelled(self) -> None:
        """End the attempts at what was cancelled in another process. Raises StoreUnavailable."""

    @abstractmethod
    def forget(self, attempt: A, ended: asyncio.Task[Any]) -> None:
        """Forget an attempt whose task has ended."""

    def join(self, service: Service) -> None:
        """Sweep, and watch the leases, as long as the service runs."""
        service.sweepers.append(self.sweep)
        service.lease_watchers.append(self.leases_held)

    def begin_task(self, attempt: A, work: Coroutine[Any, Any, Any]) -> None:
        """Make an attempt in a task of its own."""
        task = asyncio.create_task(work)
        self.tasks[attempt] = task
        task.add_done_callback(lambda ended: self.forget(attempt, ended))

    def aside(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that nobody waits for."""
        task = asyncio.create_task(work)
        self.asides.add(task)
        task.add_done_callback(self.asides.discard)

    def leave(self, key: str) -> None:
        """Leave something to newer processes: this one does not try it again for a while."""
        self.left_until.pop(key, None)
        if len(self.left_until) >= LEFT_MAX:
            del self.left_until[next(iter(self.left_until))]
        self.left_until[key] = self.clock.monotonic() + LEFT_ALONE_SECONDS

    def are_left(self) -> list[str]:
        """The keys of what this process leaves to newer ones for now."""
        now = self.clock.monotonic()
        self.left_until = {key: until for key, until in self.left_until.items() if until > now}
        return list(self.left_until)

    def cancelled_somewhere(self) -> None:
        """Look whether something that is done here was cancelled in another process. However much
        is cancelled during the look, one more look follows."""
        self.cancelled_unseen = True
        if self.tasks and not self.looking:
            self.looking = True
            self.aside(self.look_for_cancelled())

    async def look_for_cancelled(self) -> None:
        """End what was cancelled in another process. If the store is away, the next commit of each
        attempt finds out."""
        try:
            while self.cancelled_unseen:
                self.cancelled_unseen = False
                with contextlib.suppress(StoreUnavailable):
                    await self.end_cancelled()
        finally:
            self.looking = False

    def leases_held(self, held: set[str]) -> None:
        """Cancel the attempts whose leases are not among those that this process holds. A lease
        that is missing for the first time may have just been given back by its last commit, which
        is still to be told; until the second time its fence keeps the attempt from doing harm."""
        missing = [attempt for attempt in self.tasks if attempt.fence.key not in held]
        for attempt in missing:
            if attempt in self.missing:
                self.tasks[attempt].cancel()
        self.missing = {*missing}

    async def drain(self) -> None:
        """Begin nothing more, let the attempts end for a moment, then cancel them. All leases are
        given back, so that other processes go on at once."""
        self.stopping = True
        if self.tasks and self.drain_seconds_max:
            await asyncio.wait(self.tasks.values(), timeout=self.drain_seconds_max)
        ending = list(self.tasks.values())
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        if self.asides:
            await asyncio.wait(self.asides, timeout=ASIDE_SECONDS_MAX)
