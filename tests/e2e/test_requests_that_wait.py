"""Many who ask the same of one thing wait for each other in the api, and are all answered."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

import httpx

from tests.e2e.asking import SECONDS_MAX
from tests.e2e.conftest import NewAgent
from tests.servers import HeelerInstance

AT_ONCE = 40
EACH_ITS_OWN = httpx.Limits(max_keepalive_connections=0)  # connection


async def test_all_who_read_or_write_one_agent_at_once_are_answered(
    heeler: HeelerInstance, new_agent: NewAgent
) -> None:
    path = f"/v1/agents/{new_agent().id}"
    async with httpx.AsyncClient(
        base_url=heeler.base_url, limits=EACH_ITS_OWN, timeout=SECONDS_MAX
    ) as client:
        usual = (await client.get(path)).json()
        reads = await asyncio.gather(*(client.get(path) for _ in range(AT_ONCE)))
        # A body is unusual for these, and is read all the same.
        odd = [client.request("GET", path, content=b'{"a": 1}' * 9_000) for _ in range(AT_ONCE)]
        reads += await asyncio.gather(*odd)
        changes = [client.patch(path, json={"description": f"{n}"}) for n in range(AT_ONCE)]
        writes = await asyncio.gather(*changes)
        now = (await client.get(path)).json()
    assert {read.status_code for read in reads} == {200}
    assert all(read.json() == usual for read in reads)
    assert {write.status_code for write in writes} == {200}
    # Two are worked on at once, so an answer may show what the one after it wrote.
    assert {write.json()["description"] for write in writes} <= {f"{n}" for n in range(AT_ONCE)}
    assert now["description"] in {f"{n}" for n in range(AT_ONCE)}


async def test_who_hangs_up_while_waiting_keeps_nobody_from_an_answer(
    heeler: HeelerInstance, new_agent: NewAgent
) -> None:
    path = f"/v1/agents/{new_agent().id}"
    host, port = "127.0.0.1", heeler.port

    async def ask_and_leave(method: str, body: bytes) -> None:
        _, writer = await asyncio.open_connection(host, port)
        head = f"{method} {path} HTTP/1.1\r\nhost: {host}:{port}\r\ncontent-length: {len(body)}\r\n"
        writer.write(head.encode() + b"content-type: application/json\r\n\r\n" + body)
        with suppress(OSError):
            await writer.drain()
        writer.transport.abort()

    change = json.dumps({"description": "left"}).encode()
    async with httpx.AsyncClient(
        base_url=heeler.base_url, limits=EACH_ITS_OWN, timeout=SECONDS_MAX
    ) as client:
        leaving = [ask_and_leave("GET", b"") for _ in range(AT_ONCE)]
        leaving += [ask_and_leave("PATCH", change) for _ in range(AT_ONCE)]
        staying = [client.get(path) for _ in range(AT_ONCE)]
        *_, answers = await asyncio.gather(*leaving, asyncio.gather(*staying))
    assert {answer.status_code for answer in answers} == {200}
