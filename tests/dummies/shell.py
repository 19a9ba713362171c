"""What every stand-in does: reach Postgres with its own role, answer a ping on NATS, stop."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import nats
import psycopg
from nats.aio.client import Client
from nats.aio.msg import Msg

from libs.contracts.nats_permissions import inbox_prefix


def say(event: str, **fields: str) -> None:
    print(json.dumps({"event": event, **fields}), file=sys.stderr, flush=True)


async def postgres_answers() -> bool:
    try:
        async with await psycopg.AsyncConnection.connect(
            os.environ["HEELER_DATABASE_URL"], connect_timeout=2
        ) as connection:
            await connection.execute("select 1")
    except psycopg.Error:
        return False
    return True


@asynccontextmanager
async def service(name: str) -> AsyncIterator[tuple[Client, asyncio.Event]]:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    client = await nats.connect(
        os.environ["HEELER_NATS_URL"],
        inbox_prefix=inbox_prefix(name),
        reconnect_time_wait=0.05,
        max_reconnect_attempts=-1,
    )

    async def pong(message: Msg) -> None:
        await message.respond(os.environ.get("DUMMY_WORD", "pong").encode())

    if name != "api":
        await client.subscribe(f"$SRV.PING.{name}", cb=pong)
    say("started", service=name)
    yield client, stop
    await client.close()
    say("stopped", service=name)


async def idle(name: str) -> None:
    if not await postgres_answers():
        raise SystemExit("Postgres does not answer")
    async with service(name) as (_, stop):
        await stop.wait()
