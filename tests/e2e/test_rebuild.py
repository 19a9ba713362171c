"""`make rebuild` while clients go on: what they read stays, and becomes right again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from letta_client import AsyncLetta, Letta

from tests.e2e.asking import EMBEDDING, MODEL, says, unique
from tests.e2e.conftest import NewAgent
from tests.servers import HeelerInstance

AGENTS = 8
pytestmark = pytest.mark.timeout(900)  # every row of a server that others have used is rebuilt


def seen(letta: Letta, agent_id: str) -> dict[str, Any]:
    """What a client reads of an agent."""
    return {
        "agent": letta.agents.retrieve(agent_id, include=["agent.blocks"]).model_dump(),
        "blocks": [block.model_dump() for block in letta.agents.blocks.list(agent_id)],
        "messages": [message.model_dump() for message in letta.agents.messages.list(agent_id)],
        "runs": [run.model_dump() for run in letta.runs.list(agent_id=agent_id)],
    }


async def test_no_request_fails_while_every_row_is_rebuilt(
    heeler: HeelerInstance, letta: Letta, aletta: AsyncLetta, new_agent: NewAgent
) -> None:
    agents = [new_agent(name=unique("rebuilt")).id for _ in range(AGENTS)]
    for agent_id in agents:
        letta.agents.messages.create(agent_id, messages=says("Hello"))
    name = unique("tool").replace("-", "_")
    tool = letta.tools.create(source_code=f"def {name}():\n    '''Do.'''")
    before = [seen(letta, agent_id) for agent_id in agents]
    going, answers = True, 0

    async def client(agent_id: str) -> None:
        nonlocal answers
        while going:
            await aletta.agents.messages.create(agent_id, messages=says("Hello again"))
            assert len((await aletta.agents.messages.list(agent_id, limit=4)).items) == 4
            fresh = await aletta.agents.create(
                name=unique("rebuilt"), model=MODEL, embedding=EMBEDDING
            )
            await aletta.agents.delete(fresh.id)
            answers += 1
            await asyncio.sleep(0.05)  # the rebuild needs the processors, too

    busy, quiet = agents[: AGENTS // 2], agents[AGENTS // 2 :]
    clients = [asyncio.create_task(client(agent_id)) for agent_id in busy]
    try:
        for _ in range(2):
            heeler.psql("update agent.messages set text = text || 'x', in_context = false")
            heeler.psql("update agent.runs set request_hash = request_hash || 'x'")
            heeler.psql("update agent.agents set updated_at = now()")
            heeler.psql("update memory.blocks set created_at = now()")
            heeler.psql("update tools.tools set created_at = now(), name = name || 'x'")
            done = await asyncio.to_thread(heeler.command, "rebuild")
            assert (done.returncode, done.stderr) == (0, "")
            mended = [line for line in done.stdout.splitlines() if "rows changed: " in line]
            for name_of_service in ("memory", "tools", "agent"):
                [line] = [line for line in mended if line.startswith(f"{name_of_service}: ")]
                assert "rows changed: none" not in line
    finally:
        going = False
        await asyncio.gather(*clients)

    assert answers > 0
    checked = heeler.command("rebuild", "--check")
    assert checked.returncode == 0, checked.stdout
    assert [seen(letta, agent_id) for agent_id in quiet] == before[AGENTS // 2 :]
    assert [tool.to_dict() for tool in letta.tools.list(name=name).items] == [tool.to_dict()]
    letta.tools.delete(tool.id)


async def test_rows_that_are_gone_come_back(
    heeler: HeelerInstance, letta: Letta, new_agent: NewAgent
) -> None:
    agent_id = new_agent().id
    letta.agents.messages.create(agent_id, messages=says("Hello"))
    before = seen(letta, agent_id)
    heeler.psql(f"delete from agent.messages where agent_id = '{agent_id}'")
    heeler.psql(f"delete from agent.runs where agent_id = '{agent_id}'")
    assert letta.agents.messages.list(agent_id).items == []

    only = heeler.command("rebuild", "--service", "agent", "--table", "messages")
    assert only.returncode == 0
    half = seen(letta, agent_id)
    assert (half["messages"], half["runs"]) == (before["messages"], [])
    assert heeler.command("rebuild").returncode == 0
    assert seen(letta, agent_id) == before


def test_a_heeler_that_does_not_run_says_so() -> None:
    stopped = HeelerInstance()
    done = stopped.command("rebuild")
    assert done.returncode == 1
    assert done.stderr == "Heeler is not running. Start it with `make up`.\n"
    stopped.close()
