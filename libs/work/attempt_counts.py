"""Count the attempts at runs and at long work, so that what ends its process is given up.

The first attempt is not stored: the lease that its process leaves behind when it dies tells the
next holder that there was one. From the second on each is counted in Postgres before it begins. An
attempt that ends in order is uncounted, or all of them are forgotten.

A process takes all that it is doing with it when it dies. So what was attempted so often is a
suspect: it begins in quarantine, with no other suspect beside it, and some seconds after the
attempt before it. Long work rests before, too: see `AttemptCount`.
"""

from __future__ import annotations

import contextlib

from libs.bus.process_ports import ProcessPorts
from libs.bus.suspect_quarantine import Ticket
from libs.eventstore.failed_messages.ports import Attempt
from libs.eventstore.ports import StoreUnavailable

ATTEMPTS_MAX = 5
UNQUARANTINED_ATTEMPTS_MAX = 2
RETRY_DELAY_SECONDS = 5.0
RETRY_DELAY_SECONDS_MIN = 0.1


class AttemptCount:
    """The count of the attempts at one point of a run, or at one work, kept by one of them.

    `has_failed` says whether an attempt before it, or this one, did not end in order: the next one
    has to know. A suspect waits for `retry_delay_seconds` before it enters quarantine: its process
    may have just begun, and its end would keep all others from it.
    """

    def __init__(
        self, ports: ProcessPorts, *, has_failed: bool = False, retry_delay_seconds: float = 0.0
    ) -> None:
        self.letters = ports.repository.store.letters
        self.quarantine = ports.quarantine
        self.clock = ports.clock
        self.has_failed = has_failed
        self.retry_delay_seconds = retry_delay_seconds
        self.begun_at = ""
        self.begun: Attempt | None = None
        self.ticket: Ticket | None = None

    async def begin(self, point: str) -> Attempt:
        """Count an attempt that takes over at a point; its number is 0 if it has to wait longer. A
        suspect rests, and waits until it is alone in quarantine."""
        begin = self.letters.begin
        begun = await begin(
            point, known=1, hold_seconds=0.0, unquarantined_max=UNQUARANTINED_ATTEMPTS_MAX
        )
        if begun.needs_quarantine:
            await self.clock.sleep(self.retry_delay_seconds)
            self.ticket = self.ticket or await self.quarantine.enter()
            begun = await begin(point, known=1, hold_seconds=RETRY_DELAY_SECONDS)
            if begun.number:
                self.quarantine.limit(self.ticket, begun.number, self.clock)
            else:
                self.leave_quarantine()
        self.begun_at, self.begun = point, begun if begun.number else None
        return begun

    async def wait_before_retry(self, delayed: Attempt) -> None:
        """Wait until an attempt that was delayed may begin."""
        await self.clock.sleep(max(delayed.wait_seconds, RETRY_DELAY_SECONDS_MIN))

    async def record_failure(self, point: str) -> Attempt:
        """Record that this attempt failed by a bug, at this point; returns what is counted."""
        known = self.begun if self.begun and self.begun_at == point else None
        failure = await self.letters.record_failure(point, known.number if known else 1, 0.0)
        self.has_failed, self.begun = True, None
        return failure

    async def forget(self) -> None:
        """Forget all attempts: this one has ended well, or got further."""
        self.has_failed = False
        if self.begun:
            self.begun = None
            with contextlib.suppress(StoreUnavailable):
                await self.letters.forget(self.begun_at)
        self.leave_quarantine()

    async def end(self) -> None:
        """The attempt is over. It does not count, unless its failure was recorded: it was ended
        from outside. If the store is away, it does. Safe to repeat."""
        self.leave_quarantine()
        with contextlib.suppress(StoreUnavailable):
            await self.uncount()

    async def uncount(self) -> None:
        """Have the attempt not count, unless its failure was recorded. Safe to repeat. Raises
        StoreUnavailable."""
        if self.begun:
            await self.letters.uncount(self.begun_at)
            self.begun = None

    def leave_quarantine(self) -> None:
        """Let the next suspect begin."""
        if self.ticket:
            self.ticket.give_back()
            self.ticket = None
