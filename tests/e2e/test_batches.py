"""Batches of messages to one agent: each item is answered once, and its result stays."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx

from tests.e2e.asking import HELLO, NOBODY, is_id, says, unique
from tests.e2e.conftest import NewAgent
from tests.scripted_model import ScriptedModelProcess
from tests.servers import HeelerInstance
from tests.waiting import wait_for

JSON = dict[str, Any]


def batch_path(agent_id: str) -> str:
    return f"/v1/agents/{agent_id}/messages/batch"


async def begin(ahttp: httpx.AsyncClient, agent_id: str, items: list[Any], **fields: Any) -> JSON:
    """Have a batch accepted; returns its document."""
    answer = await ahttp.post(batch_path(agent_id), json={"items": items, **fields})
    assert answer.status_code == 202, answer.text
    batch: JSON = answer.json()
    return batch


async def look(ahttp: httpx.AsyncClient, batch: Mapping[str, Any]) -> JSON:
    """The document of a batch as it is now."""
    answer = await ahttp.get(f"{batch_path(batch['agent_id'])}/{batch['id']}")
    assert answer.status_code == 200, answer.text
    document: JSON = answer.json()
    return document


async def ended(ahttp: httpx.AsyncClient, batch: Mapping[str, Any]) -> JSON:
    """The document of a batch once it has ended."""

    async def has_ended() -> bool:
        return (await look(ahttp, batch))["completed_at"] is not None

    await wait_for("the batch has ended", has_ended)
    return await look(ahttp, batch)


async def items_of(ahttp: httpx.AsyncClient, batch: Mapping[str, Any], **query: Any) -> list[JSON]:
    path = f"{batch_path(batch['agent_id'])}/{batch['id']}/items"
    items: list[JSON] = (await ahttp.get(path, params=query)).json()
    return items


def answers(item: Mapping[str, Any]) -> list[str]:
    """What the agent said to an item."""
    return [
        message["content"]
        for message in item["messages"]
        if message["message_type"] == "assistant_message"
    ]


async def test_each_of_fifty_messages_is_answered_once_and_its_result_is_kept(
    ahttp: httpx.AsyncClient, new_agent: NewAgent, model: ScriptedModelProcess
) -> None:
    agent, word = new_agent(), unique("fifty")
    said = [f"SAY:{word} {number}." for number in range(50)]
    batch = await begin(ahttp, agent.id, list(said))
    assert is_id("batch", batch["id"])
    assert batch["counts"]["total"] == 50
    assert batch["agent_id"] == agent.id
    after = await ended(ahttp, batch)
    counts = {"total": 50, "completed": 50, "pending": 0, "running": 0, "failed": 0}
    assert after["counts"] == {**counts, "cancelled": 0}
    assert (after["status"], after["percentage"], after["failed_items"]) == ("completed", 100, [])
    items = await items_of(ahttp, batch)
    assert [answers(item) for item in items] == [[f"{word} {n}."] for n in range(50)]
    assert [item["number"] for item in items] == list(range(50))
    assert all(item["usage"]["step_count"] == 1 for item in items)
    assert len({item["run_id"] for item in items}) == 50
    for text in said:
        assert await model.asked(text) == {0: 1}
    own = (await ahttp.get(f"/v1/agents/{agent.id}/messages")).json()
    assert not [message for message in own if word in str(message)], "the agent's own is untouched"


async def test_items_that_fail_say_why_and_the_others_are_answered(
    ahttp: httpx.AsyncClient, new_agent: NewAgent
) -> None:
    agent, word = new_agent(), unique("some")
    items = [f"SAY:{word}", f"FAIL:401 {word}", f"SAY:{word} again"]
    after = await ended(ahttp, await begin(ahttp, agent.id, list(items)))
    assert after["status"] == "completed"
    assert (after["counts"]["completed"], after["counts"]["failed"]) == (2, 1)
    [failed] = after["failed_items"]
    assert failed["number"] == 1
    assert failed["reason"]
    [shown] = await items_of(ahttp, after, status="failed")
    assert (shown["status"], shown["reason"]) == ("failed", failed["reason"])
    assert shown["id"] == failed["id"]
    every_one = await ended(ahttp, await begin(ahttp, agent.id, [f"FAIL:401 {word} alone"]))
    assert every_one["status"] == "failed", "no item was answered"


async def test_a_hundred_items_some_of_which_fail_block_no_message_beside_them(
    ahttp: httpx.AsyncClient, new_agent: NewAgent, model: ScriptedModelProcess
) -> None:
    agent, word = new_agent(), unique("hundred")
    said = [f"{'FAIL:401' if n % 10 == 3 else 'SAY:Yes'} {word} {n}." for n in range(100)]
    batch = await begin(ahttp, agent.id, list(said))
    for n in range(5):
        messages = {"messages": says(f"SAY:{word} beside {n}")}
        answer = await ahttp.post(f"/v1/agents/{agent.id}/messages", json=messages)
        assert answer.json()["messages"][-1]["content"] == f"{word} beside {n}"
    after = await ended(ahttp, batch)
    assert (after["counts"]["completed"], after["counts"]["failed"]) == (90, 10)
    assert [item["number"] for item in after["failed_items"]] == [*range(3, 100, 10)]
    for text in said:
        assert await model.asked(text) == {0: 1}


async def test_what_a_batch_starts_belongs_to_the_story_of_its_request(
    ahttp: httpx.AsyncClient, heeler: HeelerInstance, new_agent: NewAgent
) -> None:
    agent, request_id = new_agent(), unique("request")
    answer = await ahttp.post(
        batch_path(agent.id),
        json={"items": ["Hello"] * 7},
        headers={"x-request-id": request_id},
    )
    after = await ended(ahttp, answer.json())
    statement = (
        "select distinct topic from agent.events where metadata->>'correlation_id' ="
        f" '{request_id}' order by topic"
    )
    topics = {row[0] for row in await asyncio.to_thread(heeler.psql, statement)}
    assert after["counts"]["completed"] == 7
    assert {
        *("batch.accepted", "batch.items_started", "batch.item_ended", "batch.completed"),
        *("conversation.created", "run.accepted", "run.completed", "conversation.deleted"),
    } <= topics
    statement = (
        "select count(*) from agent.events where aggregate_id ="
        f" '{after['id']}' and metadata->>'correlation_id' <> '{request_id}'"
    )
    assert await asyncio.to_thread(heeler.psql, statement) == [(0,)], "and nothing to another"


async def test_conversations_of_items_go_unless_they_are_kept(
    ahttp: httpx.AsyncClient, new_agent: NewAgent
) -> None:
    agent = new_agent()
    gone = await ended(ahttp, await begin(ahttp, agent.id, ["Hello", "Hello again"]))
    path = f"/v1/conversations/?agent_id={agent.id}"
    assert (await ahttp.get(path)).json() == []
    for item in await items_of(ahttp, gone):
        assert answers(item) == [HELLO]
        assert (await ahttp.get(f"/v1/conversations/{item['conversation_id']}")).status_code == 404
    kept = await ended(ahttp, await begin(ahttp, agent.id, ["Hello", "Hello again"], keep=True))
    items = await items_of(ahttp, kept)
    listed = {conversation["id"] for conversation in (await ahttp.get(path)).json()}
    assert listed == {item["conversation_id"] for item in items}
    messages = (await ahttp.get(f"/v1/conversations/{items[0]['conversation_id']}/messages")).json()
    assert [m["content"] for m in messages if m["message_type"] == "assistant_message"] == [HELLO]
    runs = (await ahttp.get("/v1/runs", params={"batch_id": kept["id"]})).json()
    assert {run["id"] for run in runs} == {item["run_id"] for item in items}
    assert {run["metadata"]["run_type"] for run in runs} == {"batch"}


async def test_a_sequential_batch_runs_in_order_in_the_agents_own_conversation(
    ahttp: httpx.AsyncClient, new_agent: NewAgent
) -> None:
    agent, word = new_agent(), unique("row")
    said = [f"SLOW:{(3 - n) * 20} SAY:{word} {n}" for n in range(4)]
    batch = await ended(ahttp, await begin(ahttp, agent.id, list(said), sequential=True))
    assert batch["sequential"]
    assert batch["counts"]["completed"] == 4
    history = (await ahttp.get(f"/v1/agents/{agent.id}/messages")).json()
    spoken = [
        message["content"]
        for message in history
        if message["message_type"] in ("user_message", "assistant_message")
        and word in message["content"]
    ]
    assert spoken == [text for n in range(4) for text in (said[n], f"{word} {n}")]
    assert (await ahttp.get(f"/v1/conversations/?agent_id={agent.id}")).json() == []


async def test_a_cancelled_batch_starts_no_more_and_a_message_beside_it_is_answered(
    ahttp: httpx.AsyncClient, new_agent: NewAgent, model: ScriptedModelProcess
) -> None:
    agent, word = new_agent(), unique("cancel")
    said = [f"HANG {word} {n}" for n in range(20)]
    batch = await begin(ahttp, agent.id, list(said))
    for text in said[:5]:
        await model.wait_for_asked(text)
    beside = await ahttp.post(f"/v1/agents/{agent.id}/messages", json={"messages": says("Hello")})
    assert beside.json()["messages"][-1]["content"] == HELLO, "a batch blocks nobody"
    now = await look(ahttp, batch)
    assert (now["status"], now["counts"]["running"], now["counts"]["pending"]) == ("running", 5, 15)
    cancelled = await ahttp.patch(f"{batch_path(agent.id)}/{batch['id']}/cancel")
    assert cancelled.json()["status"] == "cancelled"
    after = await ended(ahttp, batch)
    assert after["counts"]["cancelled"] == 20
    assert after["status"] == "cancelled"
    for text in said[5:]:
        assert await model.asked(text) == {}
    again = await ahttp.post(f"{batch_path(agent.id)}/{batch['id']}/cancel")
    assert again.status_code == 200, "it is cancelled already"
    assert (await ahttp.get(f"/v1/conversations/?agent_id={agent.id}")).json() == []


async def test_a_batch_is_refused_as_a_whole_and_the_refusal_names_the_item(
    ahttp: httpx.AsyncClient, new_agent: NewAgent
) -> None:
    agent = new_agent()
    path = batch_path(agent.id)

    async def refusal(**body: Any) -> str:
        answer = await ahttp.post(path, json=body)
        assert answer.status_code in (404, 422), answer.text
        return str(answer.json()["detail"])

    good: list[Any] = ["Hello"] * 37
    assert "`items[37]" in await refusal(items=[*good, {"messages": []}])
    assert "`items[37].messages[0]" in await refusal(
        items=[*good, {"messages": [{"role": "user"}]}]
    )
    assert "`items[37]" in await refusal(items=[*good, {"input": "Hello", "max_steps": 0}])
    assert "items[37].override_model" in await refusal(
        items=[*good, {"input": "Hello", "override_model": "openai/none"}]
    )
    assert "items" in await refusal(items=["Hello"] * 101)
    assert "items" in await refusal(items=[])
    assert "`items[0]" in await refusal(items=[{"message": 7}])
    assert "items" in await refusal()
    assert "callback_url" in await refusal(items=good, callback_url="http://10.0.0.1/")
    answers_approval = {"messages": [{"type": "approval", "approvals": []}]}
    assert "items[0]" in await refusal(items=[answers_approval])
    twice = [{"input": "Hello", "custom_id": name} for name in ("a", "b", "a")]
    assert "`items[2].custom_id`: items[0] has it" in await refusal(items=twice)
    for field in ("conversation_id", "callback_url", "streaming", "max_step"):
        message = {"role": "user", "content": "Hello"}
        for item in ({"input": "Hello"}, {"messages": [message]}, {"message": "Hello"}, message):
            wrong = await refusal(items=[*good, {**item, field: "none"}])
            assert f"`items[37].{field}`: Extra inputs" in wrong, "it would have no effect"
    assert "`keeps`" in await refusal(items=good, keeps=True)
    assert "`messages`" in await refusal(items=good, messages=good)
    assert "`items[0]`: `max_steps`" in await refusal(items=[{**message, "max_steps": 0}])
    assert (await ahttp.get(path)).json() == [], "nothing was begun"
    nobody = await ahttp.post(batch_path(f"agent-{NOBODY}"), json={"items": ["Hello"]})
    assert nobody.status_code == 404
    assert (await ahttp.get(f"{path}/batch-{NOBODY}")).status_code == 404
    assert (await ahttp.get(f"{path}/batch-{NOBODY}/items")).status_code == 404
    assert (await ahttp.post(f"{path}/batch-{NOBODY}/cancel")).status_code == 404
    assert (await ahttp.get(f"{path}/nonsense")).status_code == 422


async def test_items_are_texts_messages_or_whole_requests(
    ahttp: httpx.AsyncClient, new_agent: NewAgent
) -> None:
    agent, word = new_agent(), unique("form")
    items = [
        f"SAY:{word} 0",
        {"role": "user", "content": f"SAY:{word} 1", "custom_id": "row-1"},
        {"messages": says(f"SAY:{word} 2"), "max_steps": 3, "custom_id": "row-2"},
        {"input": f"SAY:{word} 3"},
        {"message": f"SAY:{word} 4", "max_steps": 3},
        {"message": {"role": "user", "content": f"SAY:{word} 5"}},
    ]
    answer = await ahttp.post(batch_path(agent.id), json={"messages": items, "max_steps": 2})
    assert answer.status_code == 202, answer.text
    after = await ended(ahttp, answer.json())
    found = await items_of(ahttp, after)
    assert [answers(item) for item in found] == [[f"{word} {n}"] for n in range(6)]
    assert [item["custom_id"] for item in found] == [None, "row-1", "row-2", None, None, None]


async def test_the_same_request_with_its_key_means_the_same_batch(
    ahttp: httpx.AsyncClient, new_agent: NewAgent
) -> None:
    agent = new_agent()
    headers = {"Idempotency-Key": unique("key")}
    path = batch_path(agent.id)
    answers = [await ahttp.post(path, json={"items": ["Hello"]}, headers=headers) for _ in range(2)]
    first, second = (answer.json() for answer in answers)
    assert first["id"] == second["id"]
    other = await ahttp.post(path, json={"items": ["Bye"]}, headers=headers)
    assert other.status_code == 409
    await ended(ahttp, first)
    assert [batch["id"] for batch in (await ahttp.get(path)).json()] == [first["id"]]


async def test_a_batch_ends_although_its_agent_is_deleted(
    ahttp: httpx.AsyncClient, new_agent: NewAgent, model: ScriptedModelProcess
) -> None:
    agent, word = new_agent(), unique("deleted")
    said = [f"HANG {word} {n}" for n in range(12)]
    batch = await begin(ahttp, agent.id, list(said))
    await model.wait_for_asked(said[0])
    assert (await ahttp.delete(f"/v1/agents/{agent.id}")).status_code == 200
    after = await ended(ahttp, batch)
    assert after["status"] == "failed"
    assert after["counts"]["failed"] == 12
    assert all(item["reason"] for item in after["failed_items"])


async def test_many_agents_are_created_and_deleted_with_a_status_each(
    ahttp: httpx.AsyncClient, new_agent: NewAgent
) -> None:
    plain = {"model": "openai/gpt-4o-mini", "embedding": "openai/text-embedding-3-small"}
    wanted: list[Any] = [{"name": unique("one"), **plain}, {"name": 7}, {"model": "openai/none"}]
    wanted.append({"name": unique("two"), "tags": ["batch"], **plain})
    key = {"Idempotency-Key": unique("key")}
    answer = await ahttp.post("/v1/agents/batch", json=wanted, headers=key)
    assert answer.status_code == 207, answer.text
    results = answer.json()["results"]
    assert [result["index"] for result in results] == [0, 1, 2, 3]
    assert [result["status"] for result in results] == [200, 422, 404, 200]
    for number in (1, 2):
        alone = await ahttp.post("/v1/agents", json=wanted[number])
        assert (alone.status_code, alone.json()) == (
            results[number]["status"],
            results[number]["body"],
        )
    first, second = (results[number]["body"] for number in (0, 3))
    assert (first["name"], second["tags"]) == (wanted[0]["name"], ["batch"])
    assert (await ahttp.get(f"/v1/agents/{first['id']}")).json()["name"] == wanted[0]["name"]
    again = (await ahttp.post("/v1/agents/batch", json=wanted, headers=key)).json()["results"]
    assert [again[n]["body"]["id"] for n in (0, 3)] == [first["id"], second["id"]]
    ids = [first["id"], f"agent-{NOBODY}", "nonsense", second["id"]]
    gone = await ahttp.request("DELETE", "/v1/agents/batch", json={"agent_ids": ids})
    assert gone.status_code == 207
    assert [result["status"] for result in gone.json()["results"]] == [200, 404, 422, 200]
    assert (await ahttp.get(f"/v1/agents/{first['id']}")).status_code == 404
    too_many = await ahttp.post("/v1/agents/batch", json=[{}] * 101)
    assert too_many.status_code == 422
    assert "agents" in too_many.json()["detail"]
    assert (await ahttp.request("DELETE", "/v1/agents/batch", json={})).status_code == 422
