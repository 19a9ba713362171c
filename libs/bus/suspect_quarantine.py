"""Let what may end the process be begun one after the other.

A process takes all that it does with it when it dies. So that the count of attempts finds what is
to blame, a suspect is handled with no other suspect beside it. A run may take minutes; it is in
quarantine for a moment only, the longer the more often it was attempted.
"""

from __future__ import annotations

import asyncio

from libs.bus.ports import Clock

# By the number of the attempt; the last one for all that come after it.
QUARANTINE_SECONDS = {3: 0.5, 4: 5.0, 5: 30.0}


class Ticket:
    """A place in quarantine, until it is given back or its time is up."""

    def __init__(self, lock: asyncio.Lock) -> None:
        self.lock = lock
        self.given_back = False
        self.timer: asyncio.Task[None] | None = None

    def give_back(self) -> None:
        """Let the next one begin."""
        if self.timer is not None:
            self.timer.cancel()
        self.release()

    def release(self) -> None:
        """Free the lock, if this has not happened yet."""
        if not self.given_back:
            self.given_back = True
            self.lock.release()


class Quarantine:
    """Of all suspects in one process, one begins at a time; so many wait for that."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.waiting = 0

    async def enter(self) -> Ticket:
        """Wait until nobody else is in quarantine."""
        self.waiting += 1
        try:
            await self.lock.acquire()
        finally:
            self.waiting -= 1
        return Ticket(self.lock)

    def limit(self, ticket: Ticket, attempt: int, clock: Clock) -> None:
        """Give the ticket back by itself after a while."""

        async def expire() -> None:
            await clock.sleep(QUARANTINE_SECONDS.get(attempt, max(QUARANTINE_SECONDS.values())))
            ticket.release()

        ticket.timer = asyncio.create_task(expire())
