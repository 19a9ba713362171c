"""Runs and models: how they are listed and what they say."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import httpx
import pytest
from letta_client import AsyncLetta, Letta

from libs.contracts.agent.conversations import main_conversation
from tests.e2e.asking import EMBEDDING, MODEL, NOBODY, TIMESTAMP, says, unique
from tests.e2e.conftest import NewAgent
from tests.scripted_model import ScriptedModelProcess
from tests.servers import HeelerInstance
from tests.waiting import wait_for


@pytest.mark.operation("POST /v1/agents/{agent_id}/messages/async")
@pytest.mark.operation("GET /v1/runs/{run_id}/messages")
@pytest.mark.operation("POST /v1/runs/{path_run_id}/stream")
async def test_a_run_shows_only_messages_of_the_types_that_were_asked_for(
    aletta: AsyncLetta, new_agent: NewAgent
) -> None:
    agent = await asyncio.to_thread(new_agent)
    call = 'CALL:conversation_search:{"query":"tea"}'
    run = await aletta.agents.messages.create_async(
        agent.id,
        messages=says(call),
        include_return_message_types=["tool_call_message", "assistant_message"],
    )

    async def ended() -> bool:
        return (await aletta.runs.retrieve(run.id)).status == "completed"

    await wait_for("the end of the run", ended)
    kinds = ["tool_call_message", "assistant_message"]
    listed = (await aletta.runs.messages.list(run.id)).items
    assert [message.message_type for message in listed] == kinds
    newest = (await aletta.runs.messages.list(run.id, order="desc", limit=1)).items
    assert [message.message_type for message in newest] == kinds[1:]
    stream = await aletta.agents.messages.create(
        agent.id,
        messages=says("Hello"),
        streaming=True,
        background=True,
        include_return_message_types=["assistant_message"],
    )
    told = [chunk async for chunk in stream]
    [said] = [message for message in told if message.message_type == "assistant_message"]
    again = await aletta.runs.messages.stream(str(said.run_id))
    types = [line.message_type async for line in again]
    assert [kind for kind in types if kind != "ping"] == [
        "assistant_message",
        "stop_reason",
        "usage_statistics",
    ]


@pytest.mark.operation("GET /v1/runs/{run_id}")
@pytest.mark.operation("GET /v1/runs/{run_id}/usage")
@pytest.mark.operation("GET /v1/runs/")
def test_a_run_says_everything_of_its_turn(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    answer = letta.agents.messages.create(
        agent.id,
        messages=says("Hello"),
        include_return_message_types=["assistant_message"],
        use_assistant_message=False,
        assistant_message_tool_name="speak",
        assistant_message_tool_kwarg="words",
    )

    run_id = str(answer.messages[0].run_id)
    run = http.get(f"/v1/runs/{run_id}").json()

    assert run == {
        "id": run_id,
        "status": "completed",
        "created_at": run["created_at"],
        "completed_at": run["completed_at"],
        "agent_id": agent.id,
        "conversation_id": None,
        "base_template_id": None,
        "background": False,
        "metadata": {"run_type": "send_message"},
        "request_config": {
            "use_assistant_message": False,
            "assistant_message_tool_name": "speak",
            "assistant_message_tool_kwarg": "words",
            "include_return_message_types": ["assistant_message"],
        },
        "stop_reason": "end_turn",
        "callback_url": None,
        "callback_sent_at": None,
        "callback_status_code": None,
        "callback_error": None,
        "ttft_ns": None,
        "total_duration_ns": run["total_duration_ns"],
    }
    assert TIMESTAMP.fullmatch(run["created_at"])
    assert TIMESTAMP.fullmatch(run["completed_at"])
    assert run["completed_at"] > run["created_at"]
    assert run["total_duration_ns"] > 0
    assert (
        letta.runs.retrieve(run_id).to_dict()
        == letta.runs.list(agent_id=agent.id).items[0].to_dict()
    )
    usage = letta.runs.usage.retrieve(run_id)
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (
        answer.usage.prompt_tokens,
        answer.usage.completion_tokens,
        answer.usage.total_tokens,
    )
    for path in (f"/v1/runs/run-{NOBODY}", f"/v1/runs/run-{NOBODY}/usage"):
        missing = http.get(path)
        assert missing.status_code == 404
        assert missing.json() == {"detail": f"Run with ID run-{NOBODY} not found"}


@pytest.mark.operation("GET /v1/runs/")
def test_runs_are_found_by_agent_status_and_reason(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    one, two = new_agent(), new_agent()

    def run(agent_id: str, text: str) -> str:
        http.post(f"/v1/agents/{agent_id}/messages", json={"messages": says(text)})
        return str(letta.runs.list(agent_id=agent_id).items[0].id)

    slow = run(one.id, "SLOW:200")
    failed = run(one.id, "FAIL:401")
    quick = run(two.id, "Hello")
    agents = [one.id, two.id]

    def found(**query: Any) -> list[str]:
        return [found.id for found in letta.runs.list(**query)]

    assert found(agent_id=one.id) == [failed, slow]
    assert found(agent_ids=agents) == [quick, failed, slow]
    assert found(agent_ids=agents, order="asc", limit=1) == [slow, failed, quick]
    assert found(agent_ids=agents, statuses=["failed"]) == [failed]
    assert found(agent_ids=agents, statuses=["completed", "failed"]) == [quick, failed, slow]
    assert found(agent_ids=agents, stop_reason="llm_api_error") == [failed]
    assert found(agent_ids=agents, active=True) == []
    assert found(agent_ids=agents, background=True) == []
    assert found(agent_ids=agents, background=False) == [quick, failed, slow]
    assert found(agent_ids=agents, after=quick, limit=1) == [failed, slow]
    query = {"agent_ids": agents, "limit": 1}
    longest = http.get("/v1/runs/", params={**query, "order_by": "duration"}).json()
    assert [run["id"] for run in longest] == [slow]
    before = http.get("/v1/runs/", params={**query, "before": slow}).json()
    assert [run["id"] for run in before] == [failed]
    unknown = http.get("/v1/runs/", params={"after": f"run-{NOBODY}"})
    assert unknown.status_code == 400


@pytest.mark.operation("GET /v1/models/")
@pytest.mark.operation("GET /v1/models/embedding")
def test_the_models_of_all_providers_are_listed(letta: Letta, http: httpx.Client) -> None:
    models = {model.handle: model for model in letta.models.list()}

    assert {MODEL, "openai/gpt-4.1", "anthropic/claude-haiku-4-5"} <= models.keys()
    assert "demo/offline" not in models, "it is for who has nothing else, or asks for it"
    mini = models[MODEL]
    assert (mini.name, mini.display_name, mini.provider_name, mini.provider_type) == (
        "gpt-4o-mini",
        "gpt-4o-mini",
        "openai",
        "openai",
    )
    assert (mini.model, mini.context_window, mini.max_context_window) == (
        "gpt-4o-mini",
        128_000,
        128_000,
    )
    demo = letta.models.list(provider_name="demo")
    assert [model.handle for model in demo] == ["demo/offline"]
    assert letta.models.list(provider_name="nobody") == []
    assert letta.models.list(provider_category=["byok"]) == []
    assert len(letta.models.list(provider_category=["base"])) == len(models)
    embeddings = {model.handle: model for model in letta.models.embeddings.list()}
    small = embeddings[EMBEDDING]
    assert (small.name, small.embedding_dim, small.provider_name) == (
        "text-embedding-3-small",
        1536,
        "openai",
    )
    assert http.get("/v1/models").json() == http.get("/v1/models/").json()


@pytest.mark.operation("GET /v1/runs/active")
@pytest.mark.operation("GET /v1/runs/")
async def test_runs_that_go_on_are_listed_as_active(
    aletta: AsyncLetta, heeler: HeelerInstance, new_agent: NewAgent, model: ScriptedModelProcess
) -> None:
    agent = new_agent()
    text = f"SLOW:2000 {unique('active')}"

    sending = asyncio.create_task(aletta.agents.messages.create(agent.id, messages=says(text)))
    await model.wait_for_asked(text)
    waiting = asyncio.create_task(aletta.agents.messages.create(agent.id, messages=says("next")))
    async with httpx.AsyncClient(base_url=heeler.base_url) as client:

        async def active() -> list[dict[str, Any]]:
            answer = await client.get("/v1/runs/active", params={"agent_ids": agent.id})
            listed: list[dict[str, Any]] = answer.json()
            return listed

        async def both() -> bool:
            return len(await active()) == 2

        await wait_for("both runs", both)
        assert [run["status"] for run in await active()] == ["created", "running"]
        listed = await aletta.runs.list(agent_id=agent.id, active=True)
        assert [run.id for run in listed.items] == [run["id"] for run in await active()]
        assert listed.items[1].completed_at is None
        assert listed.items[1].stop_reason is None
        newest, oldest = (run["id"] for run in await active())

        async def page(**query: Any) -> list[str]:
            asked = {"agent_ids": agent.id, **query}
            answer = await client.get("/v1/runs/active", params=asked)
            assert answer.status_code == 200, answer.text
            return [run["id"] for run in answer.json()]

        assert await page(limit=1) == [newest]
        assert await page(limit=1, after=newest) == [oldest]
        assert await page(limit=1, before=oldest) == [newest]
        assert await page(limit=1, order="asc") == [oldest]
        too_many = await client.get("/v1/runs/active", params={"limit": 1_001})
        assert too_many.status_code == 422
        await asyncio.gather(sending, waiting)
        assert await active() == []


@pytest.mark.operation("POST /v1/agents/{agent_id}/messages")
@pytest.mark.skipif(
    os.environ.get("HEELER_PROCESSES") == "one", reason="the api dies too: test_one_process.py"
)
async def test_the_process_after_a_dead_one_does_not_wait_for_its_leases(
    heeler: HeelerInstance, aletta: AsyncLetta, new_agent: NewAgent, model: ScriptedModelProcess
) -> None:
    agent = new_agent()
    text = f"SLOW:1500 SAY:{unique('taken over')}"

    sending = asyncio.create_task(aletta.agents.messages.create(agent.id, messages=says(text)))
    await model.wait_for_asked(text)
    killed = await asyncio.to_thread(heeler.kill9, "agent")
    answer = await sending

    assert answer.messages[-1].content == text.rpartition("SAY:")[2]  # type: ignore[union-attr]
    assert await asyncio.to_thread(heeler.wait_restarted, "agent", killed) != killed
    log = await asyncio.to_thread(heeler.log, "agent", 200)
    before, freed, after = log.rpartition("the leases of the process before are free: ")
    assert freed
    took_over = f"taking over the run of {main_conversation(agent.id)}"
    assert took_over in after
    assert took_over not in before


@pytest.mark.operation("GET /v1/runs/{run_id}/messages")
def test_the_messages_of_a_run_are_those_that_were_sent_and_its_answer(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    answer = letta.agents.messages.create(
        agent.id, messages=says('CALL:conversation_search:{"query": "tea"}')
    )
    other = letta.agents.messages.create(agent.id, messages=says("Something else"))
    run_id = str(answer.messages[0].run_id)

    listed = list(letta.runs.messages.list(run_id))

    kinds = [message.message_type for message in listed]
    answered = [message.message_type for message in answer.messages]
    assert kinds == ["user_message", *answered]
    assert {message.run_id for message in listed} == {run_id}
    pages = [message.id for message in letta.runs.messages.list(run_id, limit=1)]
    assert pages == [message.id for message in listed], "one page after the other"
    newest = [
        message.id for message in letta.runs.messages.list(run_id, order="desc", limit=2).items
    ]
    assert newest == [listed[-1].id, listed[-2].id]
    asked = http.get(f"/v1/runs/run-{NOBODY}/messages")
    assert asked.status_code == 404
    foreign = http.get(f"/v1/runs/{run_id}/messages", params={"after": other.messages[0].id})
    assert foreign.status_code == 400
    assert "after" in foreign.json()["detail"]


@pytest.mark.operation("GET /v1/jobs/")
@pytest.mark.operation("GET /v1/jobs/active")
@pytest.mark.operation("GET /v1/jobs/{job_id}")
@pytest.mark.operation("PATCH /v1/jobs/{job_id}/cancel")
@pytest.mark.operation("DELETE /v1/jobs/{job_id}")
def test_runs_are_no_jobs_and_there_are_no_others(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    run = letta.agents.messages.create_async(new_agent().id, messages=says("SLOW:500 SAY:Done."))
    for path in ("/v1/jobs/", "/v1/jobs", "/v1/jobs/active"):
        asked = http.get(path, params={"limit": 2, "ascending": "false", "source_id": "source-1"})
        assert (asked.status_code, asked.json()) == (200, [])
    cursor = http.get("/v1/jobs/", params={"after": run.id})
    assert cursor.status_code == 400
    assert "`after`" in cursor.json()["detail"]
    assert http.get("/v1/jobs/", params={"limit": "many"}).status_code == 422
    for method, path in (("GET", ""), ("PATCH", "/cancel"), ("DELETE", "")):
        unknown = http.request(method, f"/v1/jobs/job-{NOBODY}{path}")
        assert unknown.status_code == 404
        assert unknown.json() == {"detail": f"Job with ID job-{NOBODY} not found"}
        assert http.request(method, f"/v1/jobs/{run.id}{path}").status_code == 422
    assert letta.runs.retrieve(run.id).status in ("created", "running", "completed")
