"""A limit on how many equal requests are answered at once: same organisation, method and path.

Many clients of one agent would otherwise fill every queue behind the api. Here their requests wait
for each other, in the order of arrival, and delay no others. A client that hangs up gives its place
away. A request that was refused with a 429 keeps its place for a moment, so that clients that retry
at once do not fill the bus with refusals.

A request has its turn from the arrival of its whole body until its answer begins, or for messages
until its run is accepted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from libs.bus.fair_semaphore import NoPlace
from services.api.http.error_responses import RETRY_AFTER_SECONDS, Problem

AT_ONCE_MAX = 2
WAITING_MAX = 256
WAITING_BYTES_MAX = 64 * 1024 * 1024
WAIT_SECONDS_MAX = 10.0
REFUSED_SECONDS = 0.25

TOO_MANY = 429
HUNG_UP = 499
UNAVAILABLE = 503

TURN = "turn"  # its name in the state of a request
Receive = Callable[[], Awaitable[Any]]


@dataclass(slots=True)
class WaitQueue:
    """The equal requests: how many are answered now, and those that wait."""

    working: int = 0
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)


class ConcurrencyLimits:
    """The limits of one process."""

    def __init__(self) -> None:
        self.lines: dict[str, WaitQueue] = {}
        self.waiting_bytes = 0

    async def turn(self, key: str, size: int, hung_up: Receive) -> Slot:
        """Wait for a turn among the requests with this key. `size` is what the body keeps in
        memory, in bytes; `hung_up` returns once the client is gone. Raises the 429 for too many
        that wait, the 503 for one that waited too long, and 499 for one whose client is gone."""
        line = self.lines.setdefault(key, WaitQueue())
        if line.working < AT_ONCE_MAX:
            line.working += 1
            return Slot(self, key)
        if len(line.waiting) >= WAITING_MAX or self.waiting_bytes + size > WAITING_BYTES_MAX:
            raise again(TOO_MANY, "As many requests like this one wait as there is room for")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.waiting.append(turn)
        self.waiting_bytes += size
        leaving = asyncio.ensure_future(hung_up())
        try:
            await asyncio.wait(
                [turn, leaving], timeout=WAIT_SECONDS_MAX, return_when=asyncio.FIRST_COMPLETED
            )
        except asyncio.CancelledError:
            if turn.done():
                self.pass_turn_on(key)
            raise
        finally:
            leaving.cancel()
            self.waiting_bytes -= size
            if not turn.done():
                line.waiting.remove(turn)
        if turn.done():
            return Slot(self, key)
        if leaving.done():
            raise Problem(HUNG_UP, {"detail": "The client hung up"})
        raise again(UNAVAILABLE, f"This request waited for {WAIT_SECONDS_MAX:.0f} s")

    def pass_turn_on(self, key: str) -> None:
        """End a turn: hand it to the next request that waits, if there is one."""
        line = self.lines[key]
        if line.waiting:
            line.waiting.popleft().set_result(None)
            return
        line.working -= 1
        if not line.working:
            del self.lines[key]


class Slot:
    """The turn of one request."""

    def __init__(self, limits: ConcurrencyLimits, key: str) -> None:
        self.limits = limits
        self.key = key
        self.over = False

    def end(self) -> None:
        """Pass the turn on to the next request. Safe to repeat."""
        if not self.over:
            self.over = True
            self.limits.pass_turn_on(self.key)

    def end_with(self, status: int) -> None:
        """End the turn as the answer begins; a moment later if the request was one too many."""
        if status != TOO_MANY:
            self.end()
        elif not self.over:
            asyncio.get_running_loop().call_later(REFUSED_SECONDS, self.end)


def end_turn(state: dict[str, Any]) -> None:
    """End the turn of a request, if it had to have one, before its answer."""
    if TURN in state:
        state[TURN].end()


def again(status: int, why: str) -> Problem:
    """The answer that tells a client to retry later."""
    detail = f"{why}: try again in a moment"
    return Problem(status, {"detail": detail}, {"Retry-After": RETRY_AFTER_SECONDS})


def no_place(none: NoPlace) -> Problem:
    """The 503 where no place was free for a request."""
    return again(UNAVAILABLE, none.reason.partition(":")[0])
