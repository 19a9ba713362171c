"""One at a time for each aggregate, in the order in which they came.

Who decides about an aggregate while somebody else does loses the race and has to decide again. In
one process nobody has to race: whoever wants to decide waits until it is his turn. Between
processes the version of the aggregate decides, as always.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

Waiter = asyncio.Future[None]


@dataclass(slots=True)
class WaitQueue:
    """Those who wait for one key: `first` before `others`, each in order of arrival."""

    first: deque[Waiter] = field(default_factory=deque)
    others: deque[Waiter] = field(default_factory=deque)

    def next(self) -> Waiter | None:
        """Whose turn it is, of those who still wait."""
        for waiters in (self.first, self.others):
            while waiters:
                waiter = waiters.popleft()
                if not waiter.done():
                    return waiter
        return None


class AggregateLocks:
    """Locks by key. A key that nobody holds costs no memory."""

    def __init__(self) -> None:
        self.queues: dict[str, WaitQueue] = {}

    def hold(self, key: str, *, first: bool = False) -> HeldLock:
        """`async with`: be the only one for a key; `first` goes before those who came earlier and
        are not."""
        return HeldLock(self, key, first)

    async def acquire(self, key: str, *, first: bool = False) -> None:
        """Wait until the key is free, and take it."""
        queue = self.queues.get(key)
        if queue is None:
            self.queues[key] = WaitQueue()
            return
        waiter: Waiter = asyncio.get_running_loop().create_future()
        (queue.first if first else queue.others).append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():
                self.release(key)  # it was handed over in the moment of the cancellation
            raise

    def release(self, key: str) -> None:
        """Hand the key to whoever is next."""
        waiter = self.queues[key].next()
        if waiter is None:
            del self.queues[key]
        else:
            waiter.set_result(None)


class HeldLock:
    """A key that is held inside. Every message takes several: as a generator each would cost twice
    as much."""

    __slots__ = ("first", "key", "locks")

    def __init__(self, locks: AggregateLocks, key: str, first: bool) -> None:
        self.locks = locks
        self.key = key
        self.first = first

    async def __aenter__(self) -> None:
        await self.locks.acquire(self.key, first=self.first)

    async def __aexit__(self, *_: object) -> None:
        self.locks.release(self.key)
