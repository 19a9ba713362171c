"""Callbacks through the SDK: who asks for one is told that the run has ended."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from letta_client import AsyncLetta, Letta, UnprocessableEntityError

from tests.e2e.asking import TIMESTAMP, says
from tests.e2e.conftest import NewAgent
from tests.waiting import wait_for


@dataclass
class Receiver:
    """Who is told, on this machine; answers with its statuses, the last for ever."""

    port: int = 0
    statuses: list[int] = field(default_factory=lambda: [200])
    told: list[dict[str, Any]] = field(default_factory=list)
    connections: int = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        self.told.append(json.loads(await reader.readexactly(length)))
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        writer.write(f"HTTP/1.1 {status} Said\r\ncontent-length: 0\r\n\r\n".encode())
        await writer.drain()
        writer.close()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    one = Receiver()
    server = await asyncio.start_server(one.answer, "localhost", 0)
    async with server:
        one.port = server.sockets[0].getsockname()[1]
        yield one


@pytest.mark.operation("POST /v1/agents/{agent_id}/messages/async")
@pytest.mark.operation("GET /v1/runs/{run_id}")
async def test_who_asked_for_it_is_told_that_the_run_has_ended(
    aletta: AsyncLetta, new_agent: NewAgent, receiver: Receiver
) -> None:
    agent = await asyncio.to_thread(new_agent)
    url = f"http://localhost:{receiver.port}/ended"
    run = await aletta.agents.messages.create_async(
        agent.id,
        messages=says("SAY:Here you are"),
        callback_url=url,
        include_return_message_types=["assistant_message"],
    )
    assert run.callback_url == url
    assert run.callback_sent_at is None

    async def told() -> bool:
        return (await aletta.runs.retrieve(run.id)).callback_status_code == 200

    await wait_for("the callback", told)
    [body] = receiver.told
    assert (body["run_id"], body["status"]) == (run.id, "completed")
    assert body["metadata"]["run_type"] == "send_message_async"
    [said] = body["metadata"]["result"]["messages"]
    assert said["content"] == "Here you are"
    shown = await aletta.runs.retrieve(run.id)
    assert body["completed_at"] == shown.to_dict(mode="json")["completed_at"]
    assert TIMESTAMP.fullmatch(str(shown.to_dict(mode="json")["callback_sent_at"]))
    assert (shown.callback_error, receiver.connections) == (None, 1)


@pytest.mark.operation("POST /v1/agents/{agent_id}/messages/async")
async def test_a_client_that_was_out_of_order_is_told_again(
    aletta: AsyncLetta, new_agent: NewAgent, receiver: Receiver
) -> None:
    agent = await asyncio.to_thread(new_agent)
    receiver.statuses = [503, 204]
    url = f"http://localhost:{receiver.port}/ended"
    run = await aletta.agents.messages.create_async(agent.id, messages=says("Hi"), callback_url=url)

    async def status(wanted: int) -> bool:
        return (await aletta.runs.retrieve(run.id)).callback_status_code == wanted

    await wait_for("the first attempt", lambda: status(503))
    await wait_for("the second", lambda: status(204))
    assert [body["run_id"] for body in receiver.told] == [run.id, run.id]


@pytest.mark.operation("POST /v1/agents/{agent_id}/messages/async")
async def test_no_private_address_is_told_anything(
    letta: Letta, aletta: AsyncLetta, new_agent: NewAgent, receiver: Receiver
) -> None:
    agent = await asyncio.to_thread(new_agent)
    for url in (
        f"http://127.0.0.1:{receiver.port}/",
        f"http://[::ffff:127.0.0.1]:{receiver.port}/",
        "http://169.254.169.254/latest/meta-data/",
        f"http://user:word@localhost:{receiver.port}/",
        f"http://2130706433:{receiver.port}/",
        "file:///etc/passwd",
        "nonsense",
    ):
        with pytest.raises(UnprocessableEntityError, match="`callback_url`"):
            await aletta.agents.messages.create_async(
                agent.id, messages=says("Hi"), callback_url=url
            )
    assert (await aletta.runs.list(agent_id=agent.id)).items == []

    # What only a look at its name tells is not told, and the run says why.
    here = await aletta.agents.messages.create_async(
        agent.id,
        messages=says("Hi"),
        callback_url=f"http://{socket.gethostname()}:{receiver.port}/",
    )

    async def given_up() -> bool:
        error = str((await aletta.runs.retrieve(here.id)).callback_error)
        return "is an address of a private network" in error or "has no address" in error

    await wait_for("the refusal", given_up)
    assert receiver.connections == 0


async def test_who_asked_for_it_is_told_that_the_batch_has_ended(
    ahttp: httpx.AsyncClient, new_agent: NewAgent, receiver: Receiver
) -> None:
    receiver.statuses = [200]
    agent = await asyncio.to_thread(new_agent)
    path = f"/v1/agents/{agent.id}/messages/batch"
    url = f"http://localhost:{receiver.port}/ended"
    answer = await ahttp.post(path, json={"items": ["Hello", "Hello"], "callback_url": url})
    batch_id = answer.json()["id"]
    await wait_for("the client is told", lambda: receiver.told)
    [told] = receiver.told
    job = f"/v1/messages/batches/{batch_id}"

    async def noted() -> Any:
        return (await ahttp.get(job)).json()["callback_sent_at"]

    await wait_for("that the client was told is recorded", noted)
    shown = (await ahttp.get(job)).json()
    assert told == {
        "job_id": batch_id,
        "status": "completed",
        "completed_at": shown["completed_at"],
    }
    assert shown["callback_status_code"] == 200
