"""Sleeptime agents through the SDK: they come with their agents, review their runs, and go."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from letta_client import APIStatusError, ConflictError, Letta, NotFoundError

from libs.contracts.groups.sleeptime import review_run, sleeptime_group
from tests.e2e.asking import SEND, STREAM, says, stream, tool_call, unique
from tests.e2e.conftest import NewAgent
from tests.scripted_model import ScriptedModelProcess
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


@pytest.mark.operation("POST /v1/agents/import")
def test_an_agent_that_comes_in_a_file_is_reviewed_by_the_sleeptime_agent_beside_it(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent(enable_sleeptime=True)
    file = {"file": ("agent.af", http.get(f"/v1/agents/{agent.id}/export").content)}
    copies = http.post("/v1/agents/import", files=file).json()["agent_ids"]
    copy = next(each for each in copies if letta.agents.retrieve(each).enable_sleeptime)
    [sleeper] = [each for each in copies if each != copy]
    group = letta.agents.retrieve(copy, include=ALL).managed_group
    assert group is not None
    assert group.agent_ids == [sleeper]
    for number in range(5):
        letta.agents.messages.create(copy, messages=says(f"Number {number}"))
    assert len(reviews(letta, sleeper)) == 1
    named = http.get("/v1/agents/", params={"query_text": agent.name, "limit": 50}).json()
    assert len(named) == 4, "each with one sleeptime agent"


@SEND
@STREAM
@pytest.mark.operation("PATCH /v1/groups/{group_id}")
def test_a_frequency_that_a_client_sets_counts_from_the_next_run_on_as_in_v1(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent(enable_sleeptime=True)
    group_id, [sleeper] = group_of(agent)
    changed = change_group(http, group_id, sleeptime_agent_frequency=2)
    assert (changed["sleeptime_agent_frequency"], changed["turns_counter"]) == (2, -1)
    run_ids: list[str] = []
    for number in range(1, 5):
        answer = letta.agents.messages.create(agent.id, messages=says(f"Number {number}"))
        told = answer.usage.run_ids or []
        assert len(told) == number % 2
        run_ids = [*told, *run_ids]
        assert [run.id for run in reviews(letta, sleeper)] == run_ids, "they are there at once"
    shown = shown_group(http, group_id).json()
    assert shown["turns_counter"] == 1
    assert shown["last_processed_message_id"].startswith("message-")
    *_, usage, done = stream(http, agent.id, "Number 5")
    assert done.data == "[DONE]"
    [in_stream] = usage.data["run_ids"]
    assert [run.id for run in reviews(letta, sleeper)] == [in_stream, *run_ids]


@SEND
async def test_a_run_that_nobody_waits_for_is_counted_and_one_that_fails_is_not(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent(enable_sleeptime=True)
    group_id, [sleeper] = group_of(agent)
    change_group(http, group_id, sleeptime_agent_frequency=1)
    run = letta.agents.messages.create_async(agent.id, messages=says("Number 1"))
    [review] = await wait_for("the review", lambda: reviews(letta, sleeper))
    assert review.id == review_run(group_id, run.id, sleeper)
    ended = await wait_for(
        "its end", lambda: (got := letta.runs.retrieve(review.id)).status == "completed" and got
    )
    assert ended.stop_reason == "end_turn"
    with pytest.raises(APIStatusError):
        letta.agents.messages.create(agent.id, messages=says("FAIL:400"))
    assert letta.agents.messages.create(agent.id, messages=says("Number 2")).usage.run_ids
    assert len(reviews(letta, sleeper)) == 2, "neither failures nor reviews are counted"


@UPDATE
async def test_sleeptime_is_enabled_disabled_and_enabled_again(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    assert agent.managed_group is None
    for _ in range(2):
        agent = letta.agents.update(agent.id, enable_sleeptime=True)
        assert agent.enable_sleeptime is True
        group_id, [sleeper] = group_of(agent)
        assert group_id == sleeptime_group(agent.id), "twice is once"
    change_group(http, group_id, sleeptime_agent_frequency=1)

    agent = letta.agents.update(agent.id, enable_sleeptime=False)
    assert agent.enable_sleeptime is False
    assert group_of(agent) == (group_id, [sleeper]), "the group stays, as in V1"
    answer = letta.agents.messages.create(agent.id, messages=says("Number 1"))
    assert answer.usage.run_ids is None
    assert reviews(letta, sleeper) == []

    agent = letta.agents.update(agent.id, enable_sleeptime=True)
    assert group_of(agent) == (group_id, [sleeper])
    answer = letta.agents.messages.create(agent.id, messages=says("Number 2"))
    assert [run.id for run in reviews(letta, sleeper)] == answer.usage.run_ids


@DELETE
async def test_a_sleeptime_agent_and_its_group_go_with_the_agent(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent(enable_sleeptime=True)
    group_id, [sleeper] = group_of(agent)
    sleeping = letta.agents.retrieve(sleeper, include=["agent.blocks"])
    letta.agents.delete(agent.id)
    for gone in (agent.id, sleeper):
        with pytest.raises(NotFoundError):
            letta.agents.retrieve(gone)
    assert shown_group(http, group_id).status_code == 404
    for block_id in blocks_of(sleeping).values():
        await wait_for("the blocks go, too", lambda id=block_id: is_gone(letta, id))


@DELETE
def test_an_agent_goes_on_alone_when_its_sleeptime_agent_is_deleted(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent(enable_sleeptime=True)
    group_id, [sleeper] = group_of(agent)
    letta.agents.delete(sleeper)
    assert shown_group(http, group_id).status_code == 404
    agent = letta.agents.retrieve(agent.id, include=ALL)
    assert agent.enable_sleeptime is None
    assert agent.managed_group is None
    assert set(blocks_of(agent)) == {"human", "persona"}
    assert letta.agents.messages.create(agent.id, messages=says("Hi")).usage.run_ids is None
    agent = letta.agents.update(agent.id, enable_sleeptime=True)
    next_group, [next_sleeper] = group_of(agent)
    assert (next_group, next_sleeper) != (group_id, sleeper)
    assert letta.agents.retrieve(next_sleeper).name == f"{agent.name}-sleeptime"


@pytest.mark.operation("DELETE /v1/groups/{group_id}")
def test_a_deleted_sleeptime_group_keeps_its_agents_and_can_be_made_again(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent(enable_sleeptime=True)
    group_id, [sleeper] = group_of(agent)
    assert http.delete(f"/v1/groups/{group_id}").status_code in (200, 204)
    assert letta.agents.retrieve(sleeper).id == sleeper
    answer = letta.agents.messages.create(agent.id, messages=says("Hi"))
    assert answer.usage.run_ids is None
    agent = letta.agents.update(agent.id, enable_sleeptime=True)
    assert group_of(agent)[0] == sleeptime_group(agent.id, 1)


@CREATE
@UPDATE
def test_a_block_that_the_sleeptime_agent_cannot_share_is_refused_and_leaves_nothing_behind(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    name, words = unique("refused"), "`enable_sleeptime`: the sleeptime agent has a block"
    persona = {"label": "memory_persona", "value": name}
    with pytest.raises(ConflictError, match=words):
        new_agent(name=name, enable_sleeptime=True, memory_blocks=[persona])
    assert letta.agents.list(name=name).items == []
    assert letta.blocks.list(value_search=name).items == []
    agent = new_agent(memory_blocks=[persona])
    with pytest.raises(ConflictError, match=words):
        letta.agents.update(agent.id, enable_sleeptime=True)
    agent = letta.agents.retrieve(agent.id, include=["agent.managed_group"])
    assert (agent.enable_sleeptime, agent.managed_group) == (None, None)
    missing = "agent-00000000-0000-4000-8000-000000000000"
    refused = http.patch(f"/v1/agents/{missing}", json={"enable_sleeptime": True})
    assert refused.status_code == 404


@pytest.mark.operation("PATCH /v1/agents/{agent_id}/core-memory/blocks/attach/{block_id}")
def test_a_block_that_is_attached_later_is_shared_with_the_sleeptime_agent(
    letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent(enable_sleeptime=True)
    _, [sleeper] = group_of(agent)
    block = letta.blocks.create(label="plans", value="None yet")
    letta.agents.blocks.attach(block.id, agent_id=agent.id)
    sharing = letta.blocks.agents.list(block.id).items
    assert {each.id for each in sharing} == {agent.id, sleeper}
    own = letta.blocks.create(label="memory_persona", value="Mine")
    letta.agents.blocks.attach(own.id, agent_id=agent.id)
    assert [each.id for each in letta.blocks.agents.list(own.id).items] == [agent.id]


@CREATE
def test_an_agent_for_voice_is_created_with_its_sleeptime_agent(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent(agent_type="voice_convo_agent", enable_sleeptime=True)
    assert {tool.name for tool in agent.tools} == {"send_message", "search_memory"}
    group_id, [sleeper_id] = group_of(agent)
    group = shown_group(http, group_id).json()
    told = ("manager_type", "max_message_buffer_length", "min_message_buffer_length")
    assert [group[name] for name in told] == ["voice_sleeptime", 30, 15]
    assert group["sleeptime_agent_frequency"] is None
    sleeper = letta.agents.retrieve(sleeper_id, include=ALL)
    assert sleeper.agent_type == "voice_sleeptime_agent"
    assert {tool.name for tool in sleeper.tools} == {
        "store_memories",
        "rethink_user_memory",
        "finish_rethinking_memory",
    }
    assert set(blocks_of(sleeper)) == {"human", "persona", "memory_persona"}


async def test_what_leaves_the_message_buffer_of_an_agent_for_voice_is_stored_for_it(
    letta: Letta, http: httpx.Client, new_agent: NewAgent, model: ScriptedModelProcess
) -> None:
    agent = new_agent(agent_type="voice_convo_agent", enable_sleeptime=True)
    group_id, [sleeper] = group_of(agent)
    change_group(http, group_id, max_message_buffer_length=6, min_message_buffer_length=5)
    first = unique("tea")
    chunk = {"start_index": 0, "end_index": 1, "context": "What was said first"}
    await model.answer(
        f"0. user: Say yes to {first}",
        answers_with("store_memories", chunks=[chunk], request_heartbeat=True),
        answers_with("rethink_user_memory", new_memory="Speaks.", request_heartbeat=True),
        answers_with("finish_rethinking_memory"),
    )
    say = tool_call("send_message", message="Yes")
    said = [f"Say yes to {first} {say}", *[f"Go on {say}"] * 3]
    answers = [letta.agents.messages.create(agent.id, messages=says(text)) for text in said]
    [review] = reviews(letta, sleeper)
    assert [answer.usage.run_ids for answer in answers] == [None, None, None, [review.id]]
    await wait_for("its end", lambda: letta.runs.retrieve(review.id).status == "completed")
    [shown, *_] = letta.runs.messages.list(review.id, order="asc").items
    lines = [line for line in shown.content.split("\n") if line[:1].isdigit()]
    assert lines[0].startswith(f"0. user: Say yes to {first}")
    assert lines[1:2] == ["1. assistant: Yes"]
    assert len(lines) == 4, "what stays begins with what the user said"
    assert letta.agents.blocks.retrieve("human", agent_id=agent.id).value == "Speaks."
    [passage] = letta.agents.passages.list(agent.id)
    assert passage.text.startswith(f"What was said first\nuser: Say yes to {first}")


def group_of(agent: Any) -> tuple[str, list[str]]:
    """The group that an agent manages: its id and its members."""
    assert agent.multi_agent_group is not None
    return agent.multi_agent_group.id, agent.multi_agent_group.agent_ids


def change_group(http: httpx.Client, group_id: str, **config: Any) -> dict[str, Any]:
    """Change settings of a group's manager; the group."""
    kind = "voice_sleeptime" if "max_message_buffer_length" in config else "sleeptime"
    body = {"manager_config": {"manager_type": kind, **config}}
    answer = http.patch(f"/v1/groups/{group_id}", json=body)
    assert answer.status_code == 200, answer.text
    changed: dict[str, Any] = answer.json()
    return changed


def is_gone(letta: Letta, block_id: str) -> bool:
    """Whether a block was deleted."""
    try:
        letta.blocks.retrieve(block_id)
    except NotFoundError:
        return True
    return False


def answers_with(tool: str, **arguments: Any) -> dict[str, Any]:
    """A reply of the model that calls a tool."""
    function = {"name": tool, "arguments": json.dumps(arguments)}
    call = {"id": unique("call"), "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-4o-mini",
        "choices": [choice],
        "usage": usage,
    }


def shown_group(http: httpx.Client, group_id: str) -> httpx.Response:
    """What a client is answered that asks for a group."""
    return http.get(f"/v1/groups/{group_id}")
