"""Heeler's own tools over MCP, used by the official client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from letta_client import AsyncLetta
from mcp import Client

from tests.e2e.asking import MODEL, unique
from tests.e2e.conftest import NewAgent
from tests.servers import HeelerInstance

OFFERED = [
    *("list_agents", "get_agent", "create_agent", "send_message", "get_run", "list_messages"),
    *("list_memory", "read_memory", "update_memory", "search_messages"),
]


@asynccontextmanager
async def client_of(heeler: HeelerInstance, mode: str = "auto") -> AsyncIterator[Client]:
    async with Client(f"{heeler.base_url}/mcp", mode=mode) as client:
        yield client


async def called(client: Client, name: str, /, **arguments: Any) -> Any:
    """What a tool answers that is no error."""
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def refused(client: Client, name: str, /, **arguments: Any) -> str:
    """The words of a tool that refuses."""
    result = await client.call_tool(name, arguments)
    assert result.is_error
    return str(getattr(result.content[0], "text", ""))


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_another_program_makes_an_agent_and_talks_to_it(
    heeler: HeelerInstance, aletta: AsyncLetta, mode: str
) -> None:
    name = unique("over-mcp")
    async with client_of(heeler, mode) as client:
        listed = (await client.list_tools()).tools
        made = await called(
            client,
            "create_agent",
            name=name,
            model=MODEL,
            tags=[name],
            memory_blocks=[{"label": "human", "value": "Its name is Ada."}],
        )
        said = await called(client, "send_message", agent_id=made["id"], message="Hello there")
        found = await called(client, "list_agents", tags=[name])
        shown = await called(client, "get_agent", agent_id=made["id"])
        history = await called(client, "list_messages", agent_id=made["id"])

    assert [tool.name for tool in listed] == OFFERED
    assert all(tool.description and tool.input_schema["type"] == "object" for tool in listed)
    agent = await aletta.agents.retrieve(made["id"], include=["agent.tags"])
    assert (agent.name, agent.tags, agent.model) == (name, [name], MODEL)
    assert (said["status"], said["stop_reason"]) == ("completed", "end_turn")
    assert said["reply"]
    assert said["agent_id"] == made["id"]
    assert found == {"agents": [made], "next_after": None}
    assert [block["value"] for block in shown["memory"]] == ["Its name is Ada."]
    assert shown["system"] == agent.system
    spoken = [
        message["content"] for message in history["messages"] if message["type"] == "user_message"
    ]
    assert spoken == ["Hello there"]
    await aletta.agents.delete(made["id"])


async def test_memory_is_read_changed_and_searched(
    heeler: HeelerInstance, aletta: AsyncLetta
) -> None:
    word = unique("rhubarb").replace("-", "")
    agent = await aletta.agents.create(
        model=MODEL, memory_blocks=[{"label": "a/b", "value": "before"}]
    )
    async with client_of(heeler) as client:
        read = await called(client, "read_memory", agent_id=agent.id, label="a/b")
        await called(client, "update_memory", agent_id=agent.id, label="a/b", value="after")
        listed = await called(client, "list_memory", agent_id=agent.id)
        await called(client, "send_message", agent_id=agent.id, message=f"I like {word}")
        found = await called(client, "search_messages", query=word, agent_id=agent.id)

    assert read["value"] == "before"
    assert [block["value"] for block in listed["memory"]] == ["after"]
    assert any(word in str(message["content"]) for message in found["messages"])
    block = await aletta.agents.blocks.retrieve("a/b", agent_id=agent.id)
    assert block.value == "after"
    await aletta.agents.delete(agent.id)


async def test_what_is_wrong_is_said_to_the_model(
    heeler: HeelerInstance, aletta: AsyncLetta
) -> None:
    nobody = "agent-00000000-0000-4000-8000-000000000000"
    async with client_of(heeler) as client:
        missing = await refused(client, "get_agent", agent_id=nobody)
        traversing = await refused(client, "get_agent", agent_id="../tools")
        unfit = await refused(client, "send_message", agent_id=nobody, message="", patience=1)
        unknown = await refused(client, "drop_tables")

    assert "not found" in missing.lower()
    assert "agent" in traversing
    assert "`message`" in unfit
    assert "`patience`" in unfit
    assert unknown == "There is no tool named 'drop_tables'"


async def test_a_reply_that_takes_long_is_fetched_later(
    heeler: HeelerInstance, new_agent: NewAgent
) -> None:
    slow_agent = new_agent()
    async with client_of(heeler) as client:
        begun = await called(
            client, "send_message", agent_id=slow_agent.id, message="SLOW:700", wait_seconds=0
        )
        ended = await called(client, "get_run", run_id=begun["run_id"], wait_seconds=30)

    assert begun["status"] in ("created", "running")
    assert ended["status"] == "completed"
    assert ended["reply"]


async def test_many_programs_at_once_are_answered(
    heeler: HeelerInstance, new_agent: NewAgent
) -> None:
    agent = new_agent()
    async with client_of(heeler) as client:
        shown = await asyncio.gather(
            *(called(client, "get_agent", agent_id=agent.id) for _ in range(40))
        )

    assert {shown_agent["id"] for shown_agent in shown} == {agent.id}


def test_what_is_no_mcp_is_refused(http: httpx.Client) -> None:
    sent = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    for body in (b"", b"{", b"[]", b'{"jsonrpc": "2.0", "id": 1, "method": "drop"}'):
        answer = http.post("/mcp", content=body, headers=sent)
        assert answer.json()["error"]["code"] in (-32700, -32600, -32601, -32602), answer.text
    assert http.get("/mcp").status_code == 405
    assert http.delete("/mcp").status_code == 405
