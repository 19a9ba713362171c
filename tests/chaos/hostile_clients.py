"""S15: clients that send too much, too slowly or nothing, and such as never read, while others go
about their work."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import psutil

from services.api.http.connection_limits import room_for_connections
from tests.chaos.client import Client
from tests.chaos.dose import Dose
from tests.chaos.oracle import Oracle, Verdict
from tests.chaos.workload import Workload
from tests.chaos.world import World
from tests.waiting import wait_for

CONNECTIONS = 2_500  # more than the api has room for
CONNECTING_AT_ONCE = 100
ENDLESS_HEADS = 4
HEAD_BYTES = 40_000_000
PART_BYTES = 1_000_000
UNREAD_STREAMS = 6
UNREAD_WORDS = 6_000
SECONDS_OF_A_ROUND = 10.0
WATCHED_EVERY_SECONDS = 0.1
READS_PAUSE_SECONDS = 0.02
GROWTH_BYTES_MAX = 100_000_000
DESCRIPTORS_LEFT_MAX = 10
QUIET_SECONDS_MAX = 120.0
GET = b"GET /v1/agents/ HTTP/1.1\r\nhost: localhost\r\n"
POST = b"POST /v1/agents/ HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5000000\r\n\r\n"
# What is sent on each connection that is kept waiting: nothing, half a head, half a body, and a
# request that leaves the connection idle.
BEGINNINGS = (b"", GET + b"x", POST + b"{" * 1_000, GET + b"\r\n")


async def s15_hostile_clients(world: World, dose: Dose) -> Verdict:
    """An ordinary client is answered, its reads the first time, and the api stays small."""
    await world.restored()
    room_for_connections(2 * CONNECTIONS)
    client = world.client()
    workload = Workload(client, world.new_name("S15"))
    await workload.create_agents(dose.agents)
    await workload.run(2 * dose.agents, 1.0, world.random)
    unread = Workload(world.client(), world.new_name("S15-UNREAD"))
    await unread.create_agents(UNREAD_STREAMS)
    oracle = await Oracle(world, workload, "S15").begin()
    verdict = oracle.verdict
    api = psutil.Process(world.heeler.pid("api"))
    descriptors, client.refusals = api.num_fds(), []
    async with watched(api, verdict), hostile(world, unread.agents) as attacks:
        for _ in range(dose.faults):
            attacks.append(asyncio.create_task(hold_connections(world)))
            attacks += [asyncio.create_task(endless_head(world)) for _ in range(ENDLESS_HEADS)]
            reading = asyncio.create_task(read(world, workload.agents, verdict))
            await workload.run(dose.messages, SECONDS_OF_A_ROUND, world.random)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
    put_off = [refusal.status for refusal in client.refusals]
    verdict.figures["put_off"] = len(put_off)
    verdict.check(set(put_off) <= {503}, f"messages were refused: {put_off}")
    began = time.monotonic()
    await wait_for(
        "descriptors are as before",
        lambda: api.num_fds() <= descriptors + DESCRIPTORS_LEFT_MAX,
        QUIET_SECONDS_MAX,
    )
    verdict.figures |= {"descriptors": descriptors, "quiet_seconds": time.monotonic() - began}
    return await oracle.judge()


async def read(world: World, agents: list[str], verdict: Verdict) -> None:
    """Read again and again, each time over a new connection; every answer counts. A machine that
    is too slow for messages meanwhile puts them off (503), which is not what is tried here."""
    client = Client(world.heeler.base_url)
    while True:
        path = f"/v1/agents/{world.random.choice(agents)}"
        try:
            status = (await client.once("GET", path)).status
        except (OSError, EOFError, TimeoutError) as problem:
            verdict.wrong.append(f"a read failed: {problem!r}")
        else:
            verdict.check(status == 200, f"a read was answered {status}")
        verdict.figures["reads"] = verdict.figures.get("reads", 0) + 1
        await asyncio.sleep(READS_PAUSE_SECONDS)


@asynccontextmanager
async def watched(api: psutil.Process, verdict: Verdict) -> AsyncIterator[None]:
    """Note how much the api grows meanwhile."""
    before = api.memory_info().rss

    async def watch() -> None:
        while True:
            grown = (api.memory_info().rss - before) / 1e6
            verdict.figures["grown_mb"] = max(verdict.figures.get("grown_mb", 0.0), grown)
            await asyncio.sleep(WATCHED_EVERY_SECONDS)

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()
        grown = verdict.figures["grown_mb"] * 1e6
        verdict.check(grown < GROWTH_BYTES_MAX, f"the api grew by {grown / 1e6:.0f} MB")


@asynccontextmanager
async def hostile(world: World, agents: list[str]) -> AsyncIterator[list[asyncio.Task[Any]]]:
    """Clients that ask for a stream of tokens and read none of it, and the attacks of a round."""
    streams = [await unread_stream(world, agent) for agent in agents]
    attacks: list[asyncio.Task[Any]] = []
    try:
        yield attacks
    finally:
        for attack in attacks:
            attack.cancel()
        await asyncio.gather(*attacks, return_exceptions=True)
        for stream in streams:
            stream.close()


async def unread_stream(world: World, agent: str) -> socket.socket:
    """A stream of many tokens of which nothing is read."""
    text = " ".join(f"word{n}" for n in range(UNREAD_WORDS))
    message = {"role": "user", "content": f"SAY:{text}"}
    body = json.dumps({"messages": [message], "stream_tokens": True}).encode()
    head = (
        f"POST /v1/agents/{agent}/messages/stream HTTP/1.1\r\nhost: localhost\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    one.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(one, ("127.0.0.1", world.heeler.port))
    await loop.sock_sendall(one, head.encode() + body)
    return one


async def hold_connections(world: World) -> None:
    """Keep as many connections as one can, each with something left to say."""
    held: list[asyncio.StreamWriter] = []
    gate = asyncio.Semaphore(CONNECTING_AT_ONCE)

    async def hold(number: int) -> None:
        with suppress(OSError):
            async with gate:
                _, writer = await asyncio.open_connection("127.0.0.1", world.heeler.port)
                held.append(writer)
                writer.write(BEGINNINGS[number % len(BEGINNINGS)])
                await writer.drain()

    try:
        await asyncio.gather(*map(hold, range(CONNECTIONS)))
        await asyncio.Event().wait()
    finally:
        for writer in held:
            writer.transport.abort()


async def endless_head(world: World) -> None:
    """A head without end."""
    with suppress(OSError):
        _, writer = await asyncio.open_connection("127.0.0.1", world.heeler.port)
        try:
            writer.write(GET + b"x: ")
            for _ in range(HEAD_BYTES // PART_BYTES):
                writer.write(b"a" * PART_BYTES)
                await writer.drain()
        finally:
            writer.transport.abort()
