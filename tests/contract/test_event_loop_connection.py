"""A connection whose socket stays watched answers, fails and is cancelled as psycopg's own does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
import uvloop
from psycopg.errors import AdminShutdown, OperationalError, SyntaxError

from libs.eventstore.event_loop_connection import EventLoopConnection
from tests.servers import PostgresServer
from tests.waiting import wait_for

LARGE = "x" * (8 << 20)  # more than a socket takes at once
Run = Callable[[Any], Any]


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    return request.param


async def opened(server: PostgresServer) -> EventLoopConnection:
    return await EventLoopConnection.connect(server.url, autocommit=True, prepare_threshold=0)


async def value(connection: psycopg.AsyncConnection[Any], query: str, *parameters: object) -> Any:
    row = await (await connection.execute(query, parameters)).fetchone()
    assert row is not None
    return row[0]


async def is_active(connection: psycopg.AsyncConnection[Any], pid: int) -> bool:
    query = "select count(*) from pg_stat_activity where pid = %s and wait_event = 'PgSleep'"
    return bool(await value(connection, query, pid))


def test_it_answers_small_and_large_queries_alike(
    run: Run, postgres_server: PostgresServer
) -> None:
    async def body() -> None:
        connection = await opened(postgres_server)
        for number in range(50):
            assert await value(connection, "select %s::int", number) == number
        assert await value(connection, "select length(%s::text)", LARGE) == len(LARGE)
        assert await value(connection, "select %s::text", LARGE) == LARGE
        with pytest.raises(SyntaxError):
            await connection.execute("selec 1")
        async with connection.transaction():
            assert await value(connection, "select 1") == 1
        await connection.close()
        await connection.close()

    run(body())


def test_a_cancelled_query_ends_in_postgres_and_the_connection_goes_on(
    run: Run, postgres_server: PostgresServer
) -> None:
    async def body() -> None:
        connection, other = await opened(postgres_server), await opened(postgres_server)
        pid = await value(connection, "select pg_backend_pid()")
        sleeping = asyncio.create_task(connection.execute("select pg_sleep(60)"))
        await wait_for("it sleeps", lambda: is_active(other, pid))
        sleeping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sleeping
        assert await value(connection, "select pg_backend_pid()") == pid
        await connection.close()
        await other.close()

    run(body())


def test_who_waits_for_a_backend_that_dies_is_told(
    run: Run, postgres_server: PostgresServer
) -> None:
    async def body() -> None:
        connection, other = await opened(postgres_server), await opened(postgres_server)
        pid = await value(connection, "select pg_backend_pid()")
        sleeping = asyncio.create_task(connection.execute("select pg_sleep(60)"))
        await wait_for("it sleeps", lambda: is_active(other, pid))
        await value(other, "select pg_terminate_backend(%s)", pid)
        with pytest.raises((AdminShutdown, OperationalError)):
            await sleeping
        assert connection.closed
        # Whoever gets the same socket number next is heard.
        third = await opened(postgres_server)
        assert await value(third, "select 3") == 3
        for to_close in (connection, other, third):
            await to_close.close()

    run(body())


def test_a_backend_that_dies_while_nobody_waits_costs_nothing_until_it_is_asked(
    run: Run, postgres_server: PostgresServer
) -> None:
    async def body() -> None:
        connection, other = await opened(postgres_server), await opened(postgres_server)
        pid = await value(connection, "select pg_backend_pid()")
        await value(other, "select pg_terminate_backend(%s)", pid)
        await wait_for("the loop has seen it", lambda: not connection.watched)
        with pytest.raises(OperationalError):
            await connection.execute("select 1")
        assert connection.closed
        await connection.close()
        await other.close()

    run(body())


def test_a_closed_connection_is_not_watched(run: Run, postgres_server: PostgresServer) -> None:
    async def body() -> None:
        for number in range(20):  # each gets the socket number of the one before
            connection = await opened(postgres_server)
            assert await value(connection, "select %s::int", number) == number
            assert connection.watched
            await connection.close()
            assert not connection.watched

    run(body())
