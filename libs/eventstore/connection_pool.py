"""Connections to Postgres: a small pool, lent for one statement or one transaction at a time."""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import psycopg
from psycopg import AsyncRawCursor
from psycopg.errors import DeadlockDetected
from psycopg.pq import TransactionStatus
from psycopg.types.json import JsonbLoader
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout
from pydantic_core import from_json

from libs.contracts.service_registry import POOL_CONNECTIONS_MAX
from libs.eventstore.as_of_reads import MOMENTS, SET_MOMENTS, moment_settings, query_of_the_past
from libs.eventstore.event_loop_connection import EventLoopConnection
from libs.eventstore.ports import StoreRefused, StoreUnavailable
from libs.eventstore.query_batching import Batched
from libs.telemetry.tracing import statement

# What passes by itself, by SQLSTATE or the beginning of one: the connection is lost (08), the
# server has no room (53: connections, memory, disk), is stopping or starting (57P), cancelled what
# took too long (57014), could not read or write a file (58); two transactions crossed (40); it is
# a standby just now (25006), or a lock was not to be had (55P03). Nothing else is tried again.
TRANSIENT = ("08", "40", "53", "57P", "57014", "58", "25006", "25P03", "55P03")
SERVER_GONE = ("08", "57P")
CONNECTION_ERRORS = (psycopg.OperationalError, psycopg.InterfaceError)
# What is to be stored is at fault: it has no such form (22), breaks a rule of its table (23), or is
# over a limit of Postgres (54), as a text that is too long for an index.
DATA_AT_FAULT = ("22", "23", "54")

POOL_WAIT_SECONDS_MAX = 5.0
CONNECT_SECONDS_MAX = 3
LOST_SECONDS_MAX = 10

# Queries whose parameters are numbered once: as many as are used again and again, and some more.
NUMBERED_MAX = 512
PARAMETER = re.compile(r"%(?:\((?P<name>\w+)\)s|s|%)")

# Planning a commit anew each time would cost more than running it. Everything here is found by a
# key: a plan that was made while a table was small must not read all of it when it has grown, in
# the order of its rows or of an index, to join it with a few others.
SESSION_OPTIONS = (
    "-c timezone=UTC -c statement_timeout=30s -c plan_cache_mode=force_generic_plan"
    " -c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off -c enable_material=off"
    # To begin other processes takes longer than what they could do, and what they do is taken from
    # everybody else.
    " -c max_parallel_workers_per_gather=0"
)


class LifoQueue(deque[Any]):
    """Free connections, of which the one that was used last is taken first. The pool would let all
    have their turn; but behind each is a process of Postgres, whose caches go cold while it is
    idle: that cost a tenth of Postgres' CPU."""

    def append(self, connection: Any) -> None:
        """Take this one next: connections are taken from the left."""
        self.appendleft(connection)


class Pool(AsyncConnectionPool[psycopg.AsyncConnection[Any]]):
    """Lends a free connection, and takes back a sound one, without a look at anything else: who has
    to wait, or brings back a broken or an old one, goes through all that psycopg does. That is some
    thirty calls for each query, in locks that nobody else holds."""

    async def getconn(self, timeout: float | None = None) -> psycopg.AsyncConnection[Any]:
        """A connection, which is to be given back with `putconn`."""
        if self._closed or not self._pool:
            return await super().getconn(timeout)
        connection = self._pool.popleft()
        self._nconns_min = min(self._nconns_min, len(self._pool))
        connection._pool = self
        return connection

    async def putconn(self, conn: psycopg.AsyncConnection[Any]) -> None:
        """Lend a returned connection to the next caller, or give it back to the pool."""
        sound = conn.pgconn.transaction_status == TransactionStatus.IDLE
        young = conn._created_at > self._drained_at and conn._expire_at > time.monotonic()
        if self._closed or self._waiting or self._pool_full_event or not sound or not young:
            await super().putconn(conn)
            return
        conn._pool = None
        self._pool.append(conn)


class QuickJsonbLoader(JsonbLoader):
    """The loader of a `jsonb` column, in one call."""

    def load(self, data: Any) -> Any:
        """Return the value that this JSON says."""
        return from_json(bytes(data))


async def configure(connection: psycopg.AsyncConnection[Any]) -> None:
    """Make a new connection read `jsonb` in one call."""
    connection.adapters.register_loader("jsonb", QuickJsonbLoader)


def open_pool(url: str, *, connections_max: int = POOL_CONNECTIONS_MAX) -> Pool:
    """A small pool of autocommit connections; open it with `async with` or `open()`."""
    pool = Pool(
        url,
        connection_class=EventLoopConnection,
        min_size=1,
        max_size=connections_max,
        timeout=POOL_WAIT_SECONDS_MAX,
        reconnect_timeout=5,
        open=False,
        configure=configure,
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
    pool._pool = LifoQueue()
    return pool


class Database:
    """Queries on a pool, with every way of losing Postgres turned into `StoreUnavailable`."""

    def __init__(self, pool: AsyncConnectionPool[psycopg.AsyncConnection[Any]]) -> None:
        self.pool = pool
        self.room = asyncio.Semaphore(pool.max_size)
        self.checking = asyncio.Lock()
        self.sources = Batched(self.have_rows, called=lambda source: f"any row of {source}")

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
                cursor = await execute_now_or_as_of(connection, query, parameters)
                result = cursor.pgresult  # `cursor.description` would describe every column
                return await cursor.fetchall() if result and result.nfields else []

    async def fetch_one(self, query: str, parameters: Any = None) -> tuple[Any, ...] | None:
        """The first row of a query, or None."""
        with statement(query):
            async with self.connection() as connection:
                cursor = await execute_now_or_as_of(connection, query, parameters)
                row: tuple[Any, ...] | None = await cursor.fetchone()
                return row

    async def any_row(self, *sources: str) -> bool:
        """Whether one of these has a row: tables, each with the condition that there may be. What
        several sweeps look for at the same time is one statement; most of the time there is
        nothing, and nothing more to ask."""
        found = await asyncio.gather(*map(self.sources.answer, sources))
        return any(found)

    async def have_rows(self, sources: list[str]) -> list[bool]:
        """Which of these have a row. In order, so that few statements are prepared."""
        asked = sorted(set(sources))
        row = await self.fetch_one(
            "select " + ", ".join(f"exists (select from {source})" for source in asked)
        )
        assert row is not None
        found = dict(zip(asked, row, strict=True))
        return [found[source] for source in sources]

    async def fetch_text(self, query: str, parameters: Any = None) -> bytes | None:
        """The first value of the first row, a text, in UTF-8; None for no row, and for null. Who
        sends it on as it is needs no string of it, which costs most where the text is large."""
        with statement(query):
            async with self.connection() as connection:
                cursor = await execute_now_or_as_of(connection, query, parameters)
                result = cursor.pgresult
                assert result is not None
                return result.get_value(0, 0) if result.ntuples else None


async def execute_now_or_as_of(
    connection: psycopg.AsyncConnection[Any], query: str, parameters: Any
) -> psycopg.AsyncCursor[Any]:
    """The cursor of a query; inside `reading_as_of` of the past."""
    moments = MOMENTS.get()
    if moments is not None:
        await execute_query(connection, SET_MOMENTS, moment_settings(moments))
        query = query_of_the_past(query)
    return await execute_query(connection, query, parameters)


async def execute_query(
    connection: psycopg.AsyncConnection[Any], query: str, parameters: Any
) -> psycopg.AsyncCursor[Any]:
    """The cursor of a query, with its parameters by name (`%(name)s`) or in order (`%s`). psycopg
    would look for them in the text each time where it is over 4 kB, or there are more than 50."""
    if parameters is None:
        return await connection.execute(query)
    text, names = number_parameters(query)
    values = parameters if names is None else [parameters[name] for name in names]
    return await AsyncRawCursor(connection).execute(text, values)


@lru_cache(NUMBERED_MAX)
def number_parameters(query: str) -> tuple[bytes, tuple[str, ...] | None]:
    """A query with `$1` for its first parameter and so on, and their names; None where they have
    none."""
    numbers: dict[str, int] = {}

    def number(found: re.Match[str]) -> str:
        if found[0] == "%%":
            return "%"
        name = found["name"] or f" {len(numbers)}"
        return f"${numbers.setdefault(name, len(numbers) + 1)}"

    text = PARAMETER.sub(number, query).encode()
    named = tuple(numbers)
    return text, None if named and named[0].startswith(" ") else named


def is_transient(problem: BaseException | None) -> bool:
    """Whether it may go well later. Who has no SQLSTATE never came from the server: the connection
    is lost."""
    if not isinstance(problem, psycopg.Error):
        return False
    if problem.sqlstate is None:
        return isinstance(problem, CONNECTION_ERRORS)
    return problem.sqlstate.startswith(TRANSIENT)


def refusal_of(problem: psycopg.Error) -> StoreRefused:
    """The refusal for an error that will be the same each time."""
    state = problem.sqlstate or ""
    why = problem.diag.message_primary or str(problem) or type(problem).__name__
    # psycopg itself refuses a text with NUL in it.
    by_data = isinstance(problem, psycopg.DataError) or state.startswith(DATA_AT_FAULT)
    return StoreRefused(f"{why} (SQLSTATE {state})", by_data=by_data)


class Borrowed:
    """`async with`: a connection of a database; what goes wrong inside may mean that it is lost."""

    __slots__ = ("connection", "database")

    def __init__(self, database: Database) -> None:
        self.database = database

    async def __aenter__(self) -> psycopg.AsyncConnection[Any]:
        try:
            self.connection = await self.database.borrow()
        except CONNECTION_ERRORS as lost:
            raise await self.unavailable(lost) from lost
        return self.connection

    async def __aexit__(self, _: object, problem: BaseException | None, __: object) -> None:
        await self.database.give_back(self.connection)
        if is_transient(problem) and not isinstance(problem, DeadlockDetected):
            raise await self.unavailable(problem) from problem

    async def unavailable(self, lost: BaseException | None) -> StoreUnavailable:
        """The exception to raise; if it is Postgres that went away, after a look at the pool."""
        state = lost.sqlstate if isinstance(lost, psycopg.Error) else None
        if state is None or state.startswith(SERVER_GONE):
            await self.database.drop_broken_connections()
        return StoreUnavailable(str(lost))


class DatabaseQueries:
    """Queries about one subject, on a database."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def column(self, query: str, values: Mapping[str, Any] | Sequence[Any]) -> list[Any]:
        """The first column of all rows of a query."""
        return [row[0] for row in await self.database.fetch(query, values)]

    async def value(self, query: str, values: Mapping[str, Any] | Sequence[Any]) -> Any | None:
        """The first column of the first row of a query; None without a row."""
        row = await self.database.fetch_one(query, values)
        return row[0] if row else None

    async def number(self, query: str, values: Mapping[str, Any] | Sequence[Any]) -> int:
        """The number that a query gives; 0 without a row."""
        return int(await self.value(query, values) or 0)
