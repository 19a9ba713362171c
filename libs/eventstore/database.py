"""Connections to Postgres: a small pool, lent for one statement or one transaction at a time."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Any

import psycopg
from psycopg.errors import DeadlockDetected
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from libs.eventstore.ports import StoreUnavailable
from libs.telemetry.tracing import statement

log = logging.getLogger(__name__)

LOST = (psycopg.OperationalError, psycopg.InterfaceError)

POOL_CONNECTIONS_MAX = 8
POOL_WAIT_SECONDS_MAX = 5.0
CONNECT_SECONDS_MAX = 3
LOST_SECONDS_MAX = 10

# Planning a commit anew each time would cost more than running it. Everything here is found by a
# key: a plan that was made while a table was small must not read all of it when it has grown, in
# the order of its rows or of an index, to join it with a few others.
SESSION_OPTIONS = (
    "-c timezone=UTC -c statement_timeout=30s -c plan_cache_mode=force_generic_plan"
    " -c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off -c enable_material=off"
)


class WarmestFirst(deque[Any]):
    """Free connections, of which the one that was used last is taken first. The pool would let all
    have their turn; but behind each is a process of Postgres, whose caches go cold while it is
    idle: that cost a tenth of Postgres' CPU."""

    def append(self, connection: Any) -> None:
        """Take this one next: connections are taken from the left."""
        self.appendleft(connection)


def open_pool(
    url: str, *, connections_max: int = POOL_CONNECTIONS_MAX
) -> AsyncConnectionPool[psycopg.AsyncConnection[Any]]:
    """A small pool of autocommit connections; open it with `async with` or `open()`."""
    pool: AsyncConnectionPool[psycopg.AsyncConnection[Any]] = AsyncConnectionPool(
        url,
        min_size=1,
        max_size=connections_max,
        timeout=POOL_WAIT_SECONDS_MAX,
        reconnect_timeout=5,
        open=False,
        kwargs={
            "autocommit": True,
            "prepare_threshold": 0,
            "connect_timeout": CONNECT_SECONDS_MAX,
            # A network that swallows everything is noticed; the first of these counts in ms.
            "tcp_user_timeout": LOST_SECONDS_MAX * 1_000,
            "keepalives_idle": LOST_SECONDS_MAX // 2,
            "keepalives_interval": LOST_SECONDS_MAX // 4,
            "keepalives_count": 2,
            "options": SESSION_OPTIONS,
        },
    )
    pool._pool = WarmestFirst()
    return pool


class Database:
    """Queries on a pool, with every way of losing Postgres turned into `StoreUnavailable`."""

    def __init__(self, pool: AsyncConnectionPool[psycopg.AsyncConnection[Any]]) -> None:
        self.pool = pool
        self.room = asyncio.Semaphore(pool.max_size)
        self.checking = asyncio.Lock()

    def connection(self) -> Borrowed:
        """A connection for as long as a query takes; never across a model or tool call."""
        return Borrowed(self)

    async def borrow(self) -> psycopg.AsyncConnection[Any]:
        """A free connection. Queueing before the pool costs a third of queueing inside it; and no
        `async with connection`, since there is no transaction to end on an autocommit one."""
        try:
            if self.room.locked():
                async with asyncio.timeout(POOL_WAIT_SECONDS_MAX):
                    await self.room.acquire()
            else:
                await self.room.acquire()
            try:
                return await self.pool.getconn()
            except BaseException:
                self.room.release()
                raise
        except (TimeoutError, PoolTimeout, PoolClosed) as none:
            raise StoreUnavailable(f"no connection to Postgres: {none}") from none

    async def give_back(self, connection: psycopg.AsyncConnection[Any]) -> None:
        """Let others have a connection."""
        try:
            await self.pool.putconn(connection)
        finally:
            self.room.release()

    async def drop_broken_connections(self) -> None:
        """After Postgres died every pooled connection is broken: find out now, not one by one."""
        if not self.pool.closed and not self.checking.locked():
            async with self.checking:
                await self.pool.check()

    async def fetch(self, query: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        with statement(query):
            async with self.connection() as connection:
                cursor = await connection.execute(query, parameters)
                return await cursor.fetchall() if cursor.description else []

    async def fetch_one(self, query: str, parameters: Any = None) -> tuple[Any, ...] | None:
        """The first row of a query, or None."""
        with statement(query):
            async with self.connection() as connection:
                cursor = await connection.execute(query, parameters)
                row: tuple[Any, ...] | None = await cursor.fetchone()
                return row


class Borrowed:
    """`async with`: a connection of a database; what goes wrong inside may mean that it is lost."""

    __slots__ = ("connection", "database")

    def __init__(self, database: Database) -> None:
        self.database = database

    async def __aenter__(self) -> psycopg.AsyncConnection[Any]:
        try:
            self.connection = await self.database.borrow()
        except LOST as lost:
            raise await self.unavailable(lost) from lost
        return self.connection

    async def __aexit__(self, _: object, problem: BaseException | None, __: object) -> None:
        await self.database.give_back(self.connection)
        if isinstance(problem, LOST) and not isinstance(problem, DeadlockDetected):
            raise await self.unavailable(problem) from problem

    async def unavailable(self, lost: BaseException) -> StoreUnavailable:
        """The exception to raise, after the pool was looked through."""
        await self.database.drop_broken_connections()
        return StoreUnavailable(str(lost))
