"""Sleeptime agents through the SDK: they come with their agents, review their runs, and go."""

from __future__ import annotations

from typing import Any

import pytest
from letta_client import Letta

from tests.e2e.asking import SEND, says, tool_call
from tests.e2e.conftest import NewAgent
from tests.waiting import wait_for

CREATE = pytest.mark.operation("POST /v1/agents/")
UPDATE = pytest.mark.operation("PATCH /v1/agents/{agent_id}")
RETRIEVE = pytest.mark.operation("GET /v1/agents/{agent_id}")
DELETE = pytest.mark.operation("DELETE /v1/agents/{agent_id}")
ALL = ["agent.blocks", "agent.managed_group", "agent.tools"]
REWRITE = tool_call("memory_rethink", label="human", new_memory="Likes coral, not orange.")


def blocks_of(agent: Any) -> dict[str, str]:
    """The blocks of an agent: their ids by their labels."""
    return {block.label: block.id for block in agent.memory.blocks}


def reviews(letta: Letta, agent_id: str) -> list[Any]:
    """The runs of a sleeptime agent."""
    return letta.runs.list(agent_id=agent_id).items


@CREATE
@RETRIEVE
def test_an_agent_is_created_with_its_sleeptime_agent_and_their_group(
    letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent(enable_sleeptime=True)
    assert agent.enable_sleeptime is True
    group = agent.multi_agent_group
    assert group is not None
    [sleeper_id] = group.agent_ids
    assert group.model_dump(exclude={"id", "agent_ids"}) == {
        "manager_type": "sleeptime",
        "description": "",
        "project_id": None,
        "template_id": None,
        "base_template_id": None,
        "deployment_id": None,
        "shared_block_ids": [],
        "manager_agent_id": agent.id,
        "termination_token": None,
        "max_turns": None,
        "sleeptime_agent_frequency": 5,
        "turns_counter": 0,
        "last_processed_message_id": None,
        "max_message_buffer_length": None,
        "min_message_buffer_length": None,
        "hidden": None,
    }
    read = letta.agents.retrieve(agent.id, include=ALL)
    assert read.multi_agent_group == group
    assert read.managed_group is not None
    assert read.managed_group.model_dump() == group.model_dump()
    assert letta.agents.retrieve(agent.id).managed_group is None, "only where it is asked for"

    sleeper = letta.agents.retrieve(sleeper_id, include=ALL)
    assert (sleeper.name, sleeper.agent_type) == (f"{agent.name}-sleeptime", "sleeptime_agent")
    assert sleeper.llm_config == agent.llm_config
    assert sleeper.embedding_config == agent.embedding_config
    assert {tool.name for tool in sleeper.tools} == {
        "memory_replace",
        "memory_insert",
        "memory_rethink",
        "memory_finish_edits",
    }
    shared = blocks_of(agent)
    assert set(shared) == {"human", "persona"}
    own = blocks_of(sleeper)
    assert own == {**shared, "memory_persona": own["memory_persona"]}
    assert sleeper.managed_group is None
    assert not sleeper.enable_sleeptime
    sharing = letta.blocks.agents.list(shared["human"]).items
    assert {each.id for each in sharing} == {agent.id, sleeper_id}


@SEND
async def test_a_sleeptime_agent_rewrites_a_block_after_every_fifth_run(
    letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent(enable_sleeptime=True)
    assert agent.multi_agent_group is not None
    [sleeper] = agent.multi_agent_group.agent_ids
    for number in range(1, 11):
        text = f"Number {number} {REWRITE if number == 5 else ''}"
        answer = letta.agents.messages.create(agent.id, messages=says(text))
        told = answer.usage.run_ids or []
        assert len(told) == (number % 5 == 0), f"after run {number}"
        assert [run.id for run in reviews(letta, sleeper)][:1] == told or number % 5
        assert len(reviews(letta, sleeper)) == number // 5

    [second, first] = reviews(letta, sleeper)
    for run in (first, second):
        assert run.metadata == {
            "run_type": "sleeptime",
            "group_id": agent.multi_agent_group.id,
            "agent_id": sleeper,
        }
        assert run.background is True
        ended = await wait_for(
            "the review's end",
            lambda run=run: (found := letta.runs.retrieve(run.id)).status == "completed" and found,
        )
        assert ended.stop_reason == "end_turn"
    block = letta.agents.blocks.retrieve("human", agent_id=agent.id)
    assert block.value == "Likes coral, not orange."
    [shown, *_] = letta.runs.messages.list(first.id, order="asc").items
    assert shown.message_type == "user_message"
    assert "user: Number 1\nassistant: Hello from the scripted model." in shown.content
    assert "user: Number 5 CALL:" in shown.content
    [shown, *_] = letta.runs.messages.list(second.id, order="asc").items
    assert "Number 5" not in shown.content, "what was reviewed is not shown again"
    assert "user: Number 6" in shown.content
    assert "user: Number 10" in shown.content
    system = letta.agents.messages.create(agent.id, messages=says("SYSTEM?")).messages[-1]
    assert "Likes coral, not orange." in system.content
