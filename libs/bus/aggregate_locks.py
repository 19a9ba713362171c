"""Locks of one process: one task at a time decides about an aggregate, in the order of arrival.

Two tasks that decide about the same aggregate at the same time conflict: the second to save has to
decide again. Within a process a lock makes the second wait instead. Between processes the version
of the aggregate finds the conflict.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

Waiter = asyncio.Future[None]


@dataclass(slots=True)
class WaitQueue:
    """The tasks that wait for one key: `first` before `others`, each in order of arrival."""

    first: deque[Waiter] = field(default_factory=deque)
    others: deque[Waiter] = field(default_factory=deque)

    def next(self) -> Waiter | None:
        """Take out and return the next task that still waits; None if there is none."""
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
        """Return an `async with` block that only one task at a time enters for this key. A task
        that asks with `first` goes before those that wait without it."""
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
        """Hand the key to the task that waits next, or free it."""
        waiter = self.queues[key].next()
        if waiter is None:
            del self.queues[key]
        else:
            waiter.set_result(None)


class HeldLock:
    """An `async with` block that holds a key. A message enters several of them, and a generator
    (`asynccontextmanager`) would cost twice as much."""

    __slots__ = ("first", "key", "locks")

    def __init__(self, locks: AggregateLocks, key: str, first: bool) -> None:
        self.locks = locks
        self.key = key
        self.first = first

    async def __aenter__(self) -> None:
        await self.locks.acquire(self.key, first=self.first)

    async def __aexit__(self, *_: object) -> None:
        self.locks.release(self.key)
