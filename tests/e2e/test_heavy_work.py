"""Heavy work that is allowed: it waits in line, ends well, and leaves room for everybody else."""

from __future__ import annotations

import asyncio
import gzip
import json
from hashlib import sha256
from typing import Any

import httpx
import pytest

from tests.e2e.asking import unique
from tests.waiting import wait_for

MESSAGES, AT_ONCE_MAX = 200, 100
COPIES = 8  # of which two are worked on at a time
SECONDS_MAX = 300.0


@pytest.fixture(scope="module")
async def long_agent(ahttp: httpx.AsyncClient) -> str:
    """An agent that was told much."""
    body = {"name": unique("long"), "model": "openai/gpt-4o-mini"}
    agent_id = str((await ahttp.post("/v1/agents/", json=body)).json()["id"])
    for begin in range(0, MESSAGES, AT_ONCE_MAX):
        texts = [f"message {begin + number} " + "words " * 40 for number in range(AT_ONCE_MAX)]
        messages = [{"role": "user", "content": text} for text in texts]
        said = await ahttp.post(
            f"/v1/agents/{agent_id}/messages", json={"messages": messages}, timeout=SECONDS_MAX
        )
        assert said.status_code == 200, said.text
    return agent_id


async def others_are_answered(http: httpx.AsyncClient, working: asyncio.Future[Any]) -> int:
    """Ask for health, and talk to another agent, until some work is done; returns how often."""
    body = {"name": unique("neighbour"), "model": "openai/gpt-4o-mini"}
    agent_id = (await http.post("/v1/agents/", json=body)).json()["id"]
    hello = {"messages": [{"role": "user", "content": "hello"}]}
    answered = 0
    while not working.done():
        health = await http.get("/v1/health/", timeout=SECONDS_MAX)
        said = await http.post(f"/v1/agents/{agent_id}/messages", json=hello, timeout=SECONDS_MAX)
        assert (health.status_code, said.status_code) == (200, 200), said.text
        answered += 1
        await asyncio.sleep(0.2)
    return answered


async def said_to(http: httpx.AsyncClient, agent_id: str) -> str:
    """A digest of what stands in the history of an agent."""
    contents: list[Any] = []
    after = ""
    while True:
        path = f"/v1/agents/{agent_id}/messages?limit=200&order=asc{after}"
        page = (await http.get(path, timeout=SECONDS_MAX)).json()
        contents += [[message["message_type"], message.get("content")] for message in page]
        if len(page) < 200:
            break
        after = f"&after={page[-1]['id']}"
    assert len(contents) > MESSAGES
    return sha256(json.dumps(contents[1:]).encode()).hexdigest()  # the system's names its agent


async def test_forks_at_once_wait_in_line_and_all_end_well(
    ahttp: httpx.AsyncClient, long_agent: str
) -> None:
    fork = f"/v1/agents/{long_agent}/fork"
    forks = [ahttp.post(fork, json={}, timeout=SECONDS_MAX) for _ in range(COPIES)]
    forking = asyncio.ensure_future(asyncio.gather(*forks))
    assert await others_are_answered(ahttp, forking) > 0
    answers = await forking
    assert [answer.status_code for answer in answers] == [200] * COPIES
    copies = {answer.json()["id"] for answer in answers}
    assert len(copies) == COPIES
    expected = await said_to(ahttp, long_agent)
    for copy in (answers[0], answers[-1]):
        assert await said_to(ahttp, copy.json()["id"]) == expected


@pytest.mark.parametrize("form", ["heeler", "letta"])
async def test_exports_at_once_wait_in_line_and_all_are_whole(
    ahttp: httpx.AsyncClient, long_agent: str, form: str
) -> None:
    path = f"/v1/agents/{long_agent}/export?format={form}"
    exports = [ahttp.get(path, timeout=SECONDS_MAX) for _ in range(COPIES)]
    exporting = asyncio.ensure_future(asyncio.gather(*exports))
    await others_are_answered(ahttp, exporting)
    answers = await exporting
    assert [answer.status_code for answer in answers] == [200] * COPIES
    if form == "letta":
        files = [answer.json() for answer in answers]
        assert all(file["agents"] == files[0]["agents"] for file in files)
        return
    lines = [gzip.decompress(answer.content).splitlines() for answer in answers]
    assert all(json.loads(file[-1])["kind"] == "footer" for file in lines)
    assert all(file[1:-1] == lines[0][1:-1] for file in lines)


async def test_clients_that_ask_again_for_a_fork_are_answered_with_those_that_they_began(
    ahttp: httpx.AsyncClient, long_agent: str
) -> None:
    """Two ask for the same behind many others, and give up waiting: each has a fork of its own in
    the end."""
    fork, body = f"/v1/agents/{long_agent}/fork", {"name": unique("fork")}

    async def forks() -> list[str]:
        named = (await ahttp.get(f"/v1/agents/?name={body['name']}", timeout=SECONDS_MAX)).json()
        return sorted(agent["id"] for agent in named)

    async def both() -> bool:
        return len(await forks()) == 2

    async def give_up_waiting() -> None:
        with pytest.raises(httpx.ReadTimeout):
            await ahttp.post(fork, json=body, timeout=0.5)

    async def ask(retries: int) -> str:
        again = {"x-stainless-retry-count": str(retries)}
        answer = await ahttp.post(fork, json=body, headers=again, timeout=SECONDS_MAX)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["id"])

    others = [ahttp.post(fork, json={}, timeout=SECONDS_MAX) for _ in range(COPIES)]
    line = asyncio.ensure_future(asyncio.gather(*others))
    await asyncio.sleep(0.1)  # the others are in the line before these two
    await asyncio.gather(give_up_waiting(), give_up_waiting())
    await wait_for("both forks", both, SECONDS_MAX)
    await line
    begun = await forks()
    assert sorted(await asyncio.gather(ask(1), ask(2))) == begun
    assert await ask(0) not in begun
    assert await ask(1) not in begun, "somebody was answered with each of them"
    assert len(await forks()) == 4
