"""A connection to Postgres whose socket the event loop watches from its first query to its end.

psycopg asks the loop to watch the socket for each wait and to stop afterwards: with uvloop several
system calls for a query, and a timer.
"""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
from psycopg.errors import OperationalError, QueryCanceled
from psycopg.pq import ConnStatus, TransactionStatus
from psycopg.waiting import READY_R, READY_W, WAIT_W

CANCEL_SECONDS_MAX = 5.0
WATCHED_AGAIN_SECONDS = 0.2


class EventLoopConnection(psycopg.AsyncConnection[Any]):
    """Keeps the contract of `psycopg.AsyncConnection`. Used in one event loop only."""

    _loop: asyncio.AbstractEventLoop
    _watched: int | None = None  # the socket, while it is watched
    _waiter: asyncio.Future[int] | None = None
    _timer: asyncio.TimerHandle | None = None

    @property
    def watched(self) -> bool:
        """Whether the loop watches the socket."""
        return self._watched is not None

    async def wait(self, gen: Any, interval: float = 0.0, timeout: float | None = None) -> Any:
        """The result of a generator of psycopg that speaks with Postgres. A cancelled task has its
        query cancelled; if that fails, the connection is closed."""
        if timeout is not None:
            self.stop_watching()
            return await super().wait(gen, timeout=timeout)
        try:
            return await self._answer(gen)
        except asyncio.CancelledError:
            self.stop_watching()
            await self._cancelled(gen)
            raise

    async def close(self) -> None:
        """Close the connection. Safe to repeat."""
        self.stop_watching()
        if self._timer is not None:
            self._timer.cancel()
        await super().close()

    async def _answer(self, gen: Any) -> Any:
        """Go on with the generator whenever the socket is as it wants it, until it returns."""
        try:
            wanted = next(gen)
            while True:
                wanted = gen.send(await self._ready(wanted))
                self.stop_watching()  # an error may have ended it: see `_watch_again`
        except StopIteration as end:
            if self.pgconn.status != ConnStatus.OK:
                self.stop_watching()
            return end.value
        except OSError as problem:
            self.stop_watching()
            raise OperationalError("connection socket closed") from problem
        except BaseException:
            # libpq may have closed the socket. The loop must forget it before it looks again.
            self.stop_watching()
            raise

    async def _ready(self, wanted: int) -> int:
        """Wait until the socket can be read, or written if that is wanted; returns which."""
        self._watch()
        assert self._watched is not None, "it is watched from here on"
        self._waiter = self._loop.create_future()
        if self._timer is None:
            self._timer = self._loop.call_later(WATCHED_AGAIN_SECONDS, self._watch_again)
        if not wanted & WAIT_W:
            try:
                return await self._waiter
            finally:
                self._waiter = None
        self._loop.add_writer(self._watched, self._wake, READY_W)
        try:
            return await self._waiter
        finally:
            self._waiter = None
            self.stop_watching()

    def _watch(self) -> None:
        """Have the loop watch the socket, if it does not."""
        if self._watched is None:
            self._loop, self._watched = asyncio.get_running_loop(), self.pgconn.socket
            self._loop.add_reader(self._watched, self._wake, READY_R)

    def stop_watching(self) -> None:
        """Have the loop forget the socket. Safe to repeat."""
        if self._watched is not None:
            self._loop.remove_reader(self._watched)
            self._loop.remove_writer(self._watched)
            self._watched = None

    def _wake(self, ready: int) -> None:
        """The socket is ready. If nobody waits, Postgres is going away: that is found out by the
        next query, and the loop would find the socket readable over and over."""
        if self._waiter is None:
            self.stop_watching()
        elif not self._waiter.done():
            self._waiter.set_result(ready)

    def _watch_again(self) -> None:
        """Watch the socket anew for who waits long. uvloop wakes once and then forgets a socket
        that has an error, such as a reset; it does so again for who asks anew."""
        self._timer = None
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(0)

    async def _cancelled(self, gen: Any) -> None:
        """Have Postgres cancel the query that the generator waits for, as psycopg does."""
        if self.pgconn.transaction_status != TransactionStatus.ACTIVE:
            return
        try:
            await self._try_cancel(timeout=CANCEL_SECONDS_MAX)
            await super().wait(gen, timeout=CANCEL_SECONDS_MAX)
        except QueryCanceled:
            pass
        except BaseException as problem:
            self.pgconn.finish()
            if not isinstance(problem, Exception):
                raise
