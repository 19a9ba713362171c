"""The configuration is loaded anew while clients are answered."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from letta_client import AsyncLetta

from tests.e2e.asking import SECONDS_MAX, says
from tests.e2e.conftest import NewAgent
from tests.servers import HeelerInstance
from tests.waiting import wait_for

PATH = "/v1/admin/configuration"


@pytest.fixture
def file(heeler: HeelerInstance) -> Iterator[Path]:
    """The file of the shared server, which ends with settings that no other test notices."""
    path = heeler.home / "heeler.toml"
    yield path
    path.unlink()


def write(file: Path, text: str) -> None:
    file.write_text(text)


async def test_every_message_is_answered_while_the_configuration_is_loaded_anew(
    heeler: HeelerInstance, file: Path, ahttp: httpx.AsyncClient, new_agent: NewAgent
) -> None:
    """The processes that answer, and that run agents, are replaced meanwhile."""
    before = {name: part.mark for name, part in heeler.state().parts.items()}
    agent_id, ended, answers = new_agent().id, asyncio.Event(), list[str]()

    async def talk() -> None:
        async with AsyncLetta(base_url=heeler.base_url, api_key="none") as client:
            while not ended.is_set():
                reply = await client.agents.messages.create(agent_id, messages=says("hello"))
                answers.append(str(reply.stop_reason.stop_reason))

    talking = asyncio.create_task(talk())
    await wait_for("it answers", lambda: answers or talking.done(), 30)
    write(file, "runs.approval_seconds_max = 604801\nserver.http_connections_max = 1999\n")
    begun = await ahttp.post(f"{PATH}/reload")
    assert begun.status_code == 202, begun.text

    async def end() -> Any:
        found: Any = (await ahttp.get(PATH)).json()
        return found if found["reloads"][-1]["status"] != "applying" else None

    found = await wait_for("it is applied", end, 60)
    told = len(answers)
    await wait_for("it answers after it", lambda: len(answers) > told or talking.done(), 30)
    ended.set()
    await talking
    attempt = found["reloads"][-1]
    assert (attempt["status"], attempt["problems"]) == ("applied", [])
    assert attempt["changed"] == ["server.http_connections_max", "runs.approval_seconds_max"]
    assert attempt["replaced"] == ["agent", "api"]
    assert {*answers} == {"end_turn"}
    after = {name: part.mark for name, part in heeler.state().parts.items()}
    assert {name for name in before if after[name] != before[name]} == {"agent", "api"}


async def test_a_wrong_configuration_is_refused_with_its_line(
    file: Path, ahttp: httpx.AsyncClient
) -> None:
    version = (await ahttp.get(PATH)).json()["version"]
    write(file, "[server]\nlog_level = 'loud'\n")
    refused = await ahttp.post(f"{PATH}/reload")
    assert refused.status_code == 422
    assert f"{file}:2: server.log_level: HEELER_LOG_LEVEL is 'loud'" in refused.json()["detail"]
    assert (await ahttp.get(PATH)).json()["version"] == version


async def test_a_sandbox_that_does_not_work_here_is_refused_before_it_is_used(
    heeler: HeelerInstance, file: Path, ahttp: httpx.AsyncClient
) -> None:
    """What the new values need is asked first: here no engine of containers answers."""
    marks = {name: part.mark for name, part in heeler.state().parts.items()}
    text = "tools.sandbox = 'container'\ntools.sandbox_image = 'no-such-image:heeler'\n"
    write(file, text)
    refused = await ahttp.post(f"{PATH}/reload", timeout=SECONDS_MAX)
    assert refused.status_code == 422, refused.text
    told = f"{file}:1: tools.sandbox: HEELER_SANDBOX is 'container', and a call that was tried"
    assert told in refused.json()["detail"]
    assert {name: part.mark for name, part in heeler.state().parts.items()} == marks
    validated = heeler.heeler("config", "validate")
    assert validated.returncode == 4, validated.stdout
    assert told in validated.stderr
