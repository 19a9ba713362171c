"""Twenty agents at the same time, each editing its memory in a stream that the SDK checks."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from letta_client import AsyncLetta

from tests.e2e.asking import EMBEDDING, HELLO, MODEL, USER, is_id, says, unique

AGENTS = 20


async def one_agent(letta: AsyncLetta, tag: str, n: int) -> str:
    """The whole life of an agent up to its first turn; its id."""
    agent = await letta.agents.create(
        name=f"{tag}-{n}",
        model=MODEL,
        embedding=EMBEDDING,
        description=f"The agent {n}",
        metadata={"n": n},
        tags=[tag],
        memory_blocks=[{"label": "human", "value": f"Number {n}", "description": "Who"}],
    )
    insert = json.dumps({"label": "human", "new_string": f"Likes {n}"})
    replace = json.dumps({"label": "human", "old_string": f"Number {n}", "new_string": f"Nr. {n}"})
    stream = await letta.agents.messages.stream(
        agent.id,
        messages=says(f"CALL:memory_insert:{insert} CALL:memory_replace:{replace}"),
    )
    events: list[Any] = [event async for event in stream]

    ping, call, returned, call_2, returned_2, said, reason, usage = events
    assert (ping.message_type, ping.seq_id) == ("ping", None)
    for asked, answered, name, arguments in (
        (call, returned, "memory_insert", insert),
        (call_2, returned_2, "memory_replace", replace),
    ):
        assert asked.message_type == "tool_call_message"
        assert asked.tool_call.name == name
        assert asked.tool_call.arguments == arguments
        assert asked.tool_calls[0].tool_call_id == asked.tool_call.tool_call_id
        assert answered.message_type == "tool_return_message"
        assert (answered.status, answered.name) == ("success", name)
        assert answered.tool_call_id == asked.tool_call.tool_call_id
        assert answered.tool_returns[0].tool_return == answered.tool_return
        assert answered.step_id == asked.step_id
    assert returned.tool_return == f"Number {n}\nLikes {n}"
    assert returned_2.tool_return == f"Nr. {n}\nLikes {n}"
    assert (said.message_type, said.content) == ("assistant_message", HELLO)
    messages = [call, returned, call_2, returned_2, said]
    assert {message.run_id for message in messages} == {ping.run_id}
    assert (
        len({message.id for message in messages})
        == len({message.otid for message in messages})
        == 5
    )
    assert len({message.step_id for message in messages}) == 3
    for message in messages:
        assert is_id("message", message.id)
        assert is_id("step", message.step_id)
        assert message.date.tzinfo is not None
        assert (message.sender_id, message.is_err, message.seq_id) == (None, None, None)
    assert reason.stop_reason == "end_turn"
    assert usage.step_count == 3
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens

    run = await letta.runs.retrieve(ping.run_id)
    assert (run.agent_id, run.status, run.stop_reason) == (agent.id, "completed", "end_turn")
    block = await letta.agents.blocks.retrieve("human", agent_id=agent.id)
    assert (block.value, block.description) == (f"Nr. {n}\nLikes {n}", "Who")
    listed: list[Any] = (await letta.agents.messages.list(agent.id, order="asc")).items
    assert [message.to_dict() for message in listed[2:]] == [
        message.to_dict() for message in messages
    ]
    assert listed[0].message_type == "system_message"
    assert f"Nr. {n}\nLikes {n}" in listed[0].content
    assert listed[1].message_type == "user_message"
    read = await letta.agents.retrieve(
        agent.id, include=["agent.blocks", "agent.tools", "agent.tags"]
    )
    assert (read.name, read.description, read.metadata) == (
        f"{tag}-{n}",
        f"The agent {n}",
        {"n": n},
    )
    assert (read.tags, read.model, read.embedding) == ([tag], MODEL, EMBEDDING)
    assert read.blocks[0].value == block.value
    assert [tool.id for tool in read.tools] == [tool.id for tool in agent.tools]
    assert read.message_ids == [message.id for message in listed]
    assert read.last_stop_reason == "end_turn"
    assert read.created_by_id == read.last_updated_by_id == USER
    assert read.created_at == agent.created_at
    return agent.id


@pytest.mark.operation("POST /v1/agents/")
@pytest.mark.operation("POST /v1/agents/{agent_id}/messages/stream")
async def test_twenty_agents_edit_their_memory_at_the_same_time(aletta: AsyncLetta) -> None:
    tag = unique("twenty")

    made = await asyncio.gather(*(one_agent(aletta, tag, n) for n in range(AGENTS)))

    listed = [agent.id async for agent in await aletta.agents.list(tags=[tag], limit=6)]
    assert sorted(listed) == sorted(made)
