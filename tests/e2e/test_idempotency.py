"""ModelStep twice has the effect of asking once, where the client says that it is the same."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from letta_client import AsyncLetta, ConflictError, Letta

from tests.e2e.asking import MODEL, SEND, STREAM, kinds, lines_of, says, unique
from tests.e2e.conftest import NewAgent
from tests.scripted_model import ScriptedModelProcess


@SEND
@STREAM
def test_the_same_key_is_the_same_run_and_the_same_answer(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent, other = new_agent(), new_agent()
    key = {"idempotency-key": unique("key")}
    body = {"messages": says('CALL:memory_insert:{"label":"human","new_string":"once"}')}
    path = f"/v1/agents/{agent.id}/messages"

    first, again = (http.post(path, json=body, headers=key) for _ in range(2))
    stream = http.post(f"{path}/stream", json=body, headers=key)

    assert first.status_code == 200
    assert again.json() == first.json()
    told = lines_of(stream.text)
    assert [line.data for line in told[1:4]] == first.json()["messages"]
    assert kinds(told)[-3:] == ["stop_reason", "usage_statistics", "[DONE]"]
    assert len(letta.runs.list(agent_id=agent.id).items) == 1
    assert letta.agents.blocks.retrieve("human", agent_id=agent.id).value == "Name: Ada\nonce"
    elsewhere = http.post(f"/v1/agents/{other.id}/messages", json=body, headers=key).json()
    assert elsewhere["messages"][0]["run_id"] != first.json()["messages"][0]["run_id"]


@SEND
@STREAM
def test_a_key_with_another_body_is_a_conflict(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    key = {"idempotency-key": unique("key")}
    path = f"/v1/agents/{agent.id}/messages"
    http.post(path, json={"messages": says("one")}, headers=key).raise_for_status()

    for refused in (
        http.post(path, json={"messages": says("two")}, headers=key),
        http.post(f"{path}/stream", json={"messages": says("two")}, headers=key),
    ):
        assert refused.status_code == 409
        assert refused.headers["x-should-retry"] == "false"
        assert "Idempotency-Key" in refused.json()["detail"]
    assert len(letta.runs.list(agent_id=agent.id).items) == 1
    with pytest.raises(ConflictError):
        letta.agents.messages.create(agent.id, messages=says("three"), extra_headers=key)


@SEND
def test_a_failed_run_stays_failed_under_its_key(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    key = {"idempotency-key": unique("key")}
    path = f"/v1/agents/{agent.id}/messages"

    first, again = (
        http.post(path, json={"messages": says("FAIL:401")}, headers=key) for _ in range(2)
    )

    assert first.status_code == again.status_code == 401
    assert first.json() == again.json()
    assert len(letta.runs.list(agent_id=agent.id).items) == 1


@SEND
async def test_the_same_key_at_the_same_time_is_one_run(
    aletta: AsyncLetta, new_agent: NewAgent, model: ScriptedModelProcess
) -> None:
    agent = new_agent()
    text = f"SLOW:200 {unique('same')}"
    key = {"idempotency-key": unique("key")}

    answers = await asyncio.gather(
        *(
            aletta.agents.messages.create(agent.id, messages=says(text), extra_headers=key)
            for _ in range(5)
        )
    )

    assert len({answer.to_json() for answer in answers}) == 1
    assert await model.answered(text) == {0: 1}


@SEND
@STREAM
def test_the_same_otids_are_the_same_request(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    otid = unique("otid")
    path = f"/v1/agents/{agent.id}/messages"

    def ask(text: str, otid: str) -> httpx.Response:
        return http.post(path, json={"messages": says(text, otid=otid)})

    first, again, other = ask("Hello", otid), ask("Hello", otid), ask("Hello", unique("otid"))

    assert again.json() == first.json()
    assert other.json()["messages"][0]["run_id"] != first.json()["messages"][0]["run_id"]
    reused, reused_again = ask("Bye", otid), ask("Bye", otid)
    assert reused_again.json() == reused.json()
    assert reused.json()["messages"][0]["run_id"] != first.json()["messages"][0]["run_id"]
    users: Any = letta.agents.messages.list(
        agent.id, include_return_message_types=["user_message"]
    ).items
    assert [user.content for user in users][-1:] == ["Bye"]
    assert [user.otid for user in users].count(otid) == 2
    assert len(users) == 3


@SEND
@STREAM
async def test_a_retry_of_the_sdk_attaches_to_the_earlier_run(
    heeler: Any, new_agent: NewAgent, model: ScriptedModelProcess
) -> None:
    agent = new_agent()
    text = f"SLOW:400 {unique('retry')}"
    path = f"/v1/agents/{agent.id}/messages"
    retry = {"x-stainless-retry-count": "1"}
    async with httpx.AsyncClient(base_url=heeler.base_url, timeout=20) as client:
        first = asyncio.create_task(client.post(path, json={"messages": says(text)}))
        await model.wait_for_asked(text)
        during = await client.post(path, json={"messages": says(text)}, headers=retry)
        after = await client.post(path, json={"messages": says(text)}, headers=retry)
        stream = await client.post(f"{path}/stream", json={"messages": says(text)}, headers=retry)
        assert (await first).json() == during.json() == after.json()
        assert await model.answered(text) == {0: 1}
        assert lines_of(stream.text)[1].data == during.json()["messages"][0]
        # Not a retry: the user says the same thing twice.
        fresh = await client.post(path, json={"messages": says(text)})
        assert fresh.json()["messages"][0]["run_id"] != during.json()["messages"][0]["run_id"]
        # A retry of something that never arrived is a new request.
        lost = await client.post(path, json={"messages": says("never arrived")}, headers=retry)
        assert lost.status_code == 200


@pytest.mark.operation("POST /v1/agents/")
@pytest.mark.operation("POST /v1/blocks/")
def test_a_creation_with_a_key_happens_once(letta: Letta, http: httpx.Client) -> None:
    name, label = unique("once"), unique("label")
    key = {"idempotency-key": unique("key")}
    body = {"name": name, "model": MODEL, "memory_blocks": [{"label": label, "value": "v"}]}

    first, again = (http.post("/v1/agents/", json=body, headers=key).json() for _ in range(2))

    assert again == first
    assert [agent.id for agent in letta.agents.list(name=name)] == [first["id"]]
    assert len(letta.blocks.list(label=label).items) == 1
    one, two = (
        http.post("/v1/blocks/", json={"label": label, "value": "w"}, headers=key).json()
        for _ in range(2)
    )
    assert one == two
    assert len(letta.blocks.list(label=label).items) == 2


@pytest.mark.operation("POST /v1/agents/")
@pytest.mark.operation("POST /v1/blocks/")
@pytest.mark.operation("PATCH /v1/blocks/{block_id}")
@pytest.mark.operation("PATCH /v1/agents/{agent_id}")
def test_a_key_that_comes_with_another_body_is_a_conflict_everywhere(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    block = letta.blocks.create(label=unique("label"), value="old")
    cases: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
        ("PATCH", f"/v1/blocks/{block.id}", {"value": "A"}, {"value": "B"}),
        ("PATCH", f"/v1/agents/{agent.id}", {"description": "A"}, {"description": "B"}),
        (
            "PATCH",
            f"/v1/agents/{agent.id}/core-memory/blocks/human",
            {"value": "A"},
            {"value": "B"},
        ),
        ("POST", "/v1/blocks", {"label": "a", "value": "A"}, {"label": "a", "value": "B"}),
        ("POST", "/v1/agents", {"name": "A", "model": MODEL}, {"name": "B", "model": MODEL}),
    ]
    for method, path, request_body, other_body in cases:
        key = {"idempotency-key": unique("key")}
        first = http.request(method, path, json=request_body, headers=key)
        again = http.request(method, path, json=request_body, headers=key)
        other = http.request(method, path, json=other_body, headers=key)
        slash = http.request(method, f"{path}/", json=request_body, headers=key)

        assert first.status_code == again.status_code == 200, path
        assert first.json()["id"] == again.json()["id"]
        if method == "POST":
            assert slash.json()["id"] == first.json()["id"]
        assert other.status_code == 409, path
        assert other.headers["x-should-retry"] == "false"
        assert "Idempotency-Key" in other.json()["detail"]
    assert letta.blocks.retrieve(block.id).value == "A"
    assert letta.agents.retrieve(agent.id).description == "A"
    assert letta.agents.blocks.retrieve("human", agent_id=agent.id).value == "A"
