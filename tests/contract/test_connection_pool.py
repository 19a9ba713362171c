"""The pool lends what is free at once, and leaves everything else to psycopg."""

from __future__ import annotations

import asyncio

import pytest
from psycopg.errors import OperationalError
from psycopg_pool import PoolClosed

from libs.eventstore.connection_pool import Database, open_pool
from tests.servers import PostgresServer
from tests.waiting import wait_for


async def test_who_waits_for_a_connection_gets_the_next_that_comes_back(
    postgres_server: PostgresServer,
) -> None:
    async with open_pool(postgres_server.url, connections_max=1) as pool:
        lent = await pool.getconn()
        waiting = asyncio.create_task(pool.getconn())
        await wait_for("somebody waits", lambda: bool(pool._waiting))
        await pool.putconn(lent)
        assert await waiting is lent
        await pool.putconn(lent)
        assert await pool.getconn() is lent
        await pool.putconn(lent)


async def test_a_connection_that_broke_or_is_too_old_is_replaced(
    postgres_server: PostgresServer,
) -> None:
    async with open_pool(postgres_server.url, connections_max=1) as pool:
        broken = await pool.getconn()
        with pytest.raises(OperationalError):
            await broken.execute("select pg_terminate_backend(pg_backend_pid())")
        await pool.putconn(broken)
        old = await pool.getconn()
        assert old is not broken
        old._expire_at = 0.0
        await pool.putconn(old)
        fresh = await pool.getconn()
        assert fresh is not old
        assert old.closed
        await pool.putconn(fresh)


async def test_a_transaction_that_was_left_open_is_rolled_back(
    postgres_server: PostgresServer,
) -> None:
    async with open_pool(postgres_server.url, connections_max=1) as pool:
        left = await pool.getconn()
        await left.execute("begin")
        await left.execute("create table left_open ()")
        await pool.putconn(left)
        rows = await Database(pool).fetch("select to_regclass('left_open')")
        assert rows == [(None,)]


async def test_a_pool_that_is_closed_lends_nothing_and_closes_what_comes_back(
    postgres_server: PostgresServer,
) -> None:
    async with open_pool(postgres_server.url) as pool:
        lent = await pool.getconn()
    await pool.putconn(lent)
    assert lent.closed
    with pytest.raises(PoolClosed):
        await pool.getconn()


async def test_jsonb_is_read_as_it_was_written(postgres_server: PostgresServer) -> None:
    async with open_pool(postgres_server.url) as pool:
        written = '{"a": [1, 2.5, 12345678901234567890, null, true, "\\u00e9 \\u20ac"], "b": {}}'
        [(read,)] = await Database(pool).fetch("select %s::jsonb", [written])
        assert read == {"a": [1, 2.5, 12345678901234567890, None, True, "é €"], "b": {}}
