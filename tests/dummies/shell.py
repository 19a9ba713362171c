"""What every stand-in does: reach Postgres with its own role, answer who asks on NATS, stop."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import nats
import psycopg
from nats.aio.client import Client
from nats.aio.msg import Msg

from libs.contracts.nats_permissions import inbox_prefix
from libs.contracts.stream_definitions import DELIVERIES_OF_COMMANDS

REPLY_TO = "heeler-reply-to"
NO_ORGANISATION = "nobody"


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

    async def sign(message: Msg) -> None:
        process = f"{socket.gethostname()}:{os.getpid()}"
        await message.respond(json.dumps({"metadata": {"process": process}}).encode())

    async def answer(command: Msg) -> None:
        await client.publish((command.headers or {})[REPLY_TO], b'{"outcome": "accepted"}')
        await client.publish(command.reply, b"+ACK")

    await client.subscribe("$SRV.PING", cb=sign)
    await client.subscribe(DELIVERIES_OF_COMMANDS.format(service=name), name, cb=answer)
    if name != "api":
        await client.subscribe(f"$SRV.PING.{name}", cb=pong)
    say("started", service=name)
    yield client, stop
    await client.close()
    say("stopped", service=name)


async def idle(name: str) -> None:
    if not await postgres_answers():
        raise SystemExit("Postgres does not answer")
    if os.environ.get("OPENAI_ORG_ID") == NO_ORGANISATION:  # what no check of settings finds
        raise SystemExit("OPENAI_ORG_ID is nobody")
    async with service(name) as (_, stop):
        await stop.wait()
