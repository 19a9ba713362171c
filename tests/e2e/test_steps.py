"""Steps: what each model call of a run was, how long it took, and what clients say of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import httpx
import pytest
from letta_client import AsyncLetta, Letta
from letta_client.types import Step

from tests.e2e.asking import MODEL, NOBODY, SECONDS_MAX, is_id, says, stream, unique
from tests.e2e.conftest import NewAgent
from tests.scripted_model import ScriptedModelProcess
from tests.servers import HeelerInstance
from tests.waiting import wait_for

SEARCH = 'CALL:conversation_search:{"query": "tea"}'


@pytest.fixture
async def web(heeler: HeelerInstance) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=heeler.base_url, timeout=SECONDS_MAX) as client:
        yield client


def steps_of(letta: Letta, run_id: str) -> list[Step]:
    """The steps of a run, the oldest first."""
    return list(letta.runs.steps.list(run_id, order="asc"))


def asked(letta: Letta, agent_id: str, text: str) -> str:
    """Send a message; returns the run that answered."""
    return str(letta.agents.messages.create(agent_id, messages=says(text)).messages[0].run_id)


def from_exact_json(text: str) -> Any:
    """JSON whose fractions are what they are written as."""
    return json.loads(text, parse_float=Decimal)


@pytest.mark.operation("GET /v1/steps/")
@pytest.mark.operation("GET /v1/steps/{step_id}")
@pytest.mark.operation("GET /v1/runs/{run_id}/steps")
def test_a_step_says_what_its_model_was_asked_for_and_what_it_took(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    answer = letta.agents.messages.create(agent.id, messages=says(SEARCH))
    run_id = str(answer.messages[0].run_id)

    called, said = steps_of(letta, run_id)

    assert called.id == answer.messages[0].step_id
    assert said.id == answer.messages[-1].step_id
    usage = answer.usage
    assert called.prompt_tokens
    assert said.prompt_tokens
    assert called.prompt_tokens + said.prompt_tokens == usage.prompt_tokens
    shown = http.get(f"/v1/steps/{said.id}").json()
    assert shown == {
        "id": said.id,
        "origin": None,
        "provider_id": None,
        "provider_name": "openai",
        "provider_category": "base",
        "run_id": run_id,
        "agent_id": agent.id,
        "model": MODEL.partition("/")[2],
        "model_handle": MODEL,
        "model_endpoint": None,
        "context_window_limit": None,
        "completion_tokens": said.completion_tokens,
        "prompt_tokens": said.prompt_tokens,
        "total_tokens": said.prompt_tokens + (said.completion_tokens or 0),
        "cached_input_tokens": said.cached_input_tokens,
        "cache_write_tokens": 0,
        "reasoning_tokens": said.reasoning_tokens,
        "completion_tokens_details": said.completion_tokens_details,
        "prompt_tokens_details": said.prompt_tokens_details,
        "stop_reason": "end_turn",
        "tags": [],
        "tid": None,
        "trace_id": None,
        "request_id": None,
        "messages": [],
        "feedback": None,
        "project_id": None,
        "error_type": None,
        "error_data": None,
        "status": "success",
        "cost_usd": None,
        "price_version": None,
    }
    assert called.stop_reason is None, "the run went on after it"
    assert letta.steps.retrieve(said.id).to_dict() == said.to_dict()
    newest = letta.steps.list(agent_id=agent.id).items
    assert [step.id for step in newest] == [said.id, called.id]
    assert [step.id for step in letta.runs.steps.list(run_id)] == [said.id, called.id]
    for path in ("", "/metrics", "/trace", "/messages"):
        missing = http.get(f"/v1/steps/step-{NOBODY}{path}")
        assert missing.status_code == 404
        assert missing.json() == {"detail": f"Step with ID step-{NOBODY} not found"}
    assert http.get("/v1/steps/nothing").status_code == 422
    assert http.get(f"/v1/runs/run-{NOBODY}/steps").status_code == 404


@pytest.mark.operation("GET /v1/runs/{run_id}/usage")
@pytest.mark.operation("GET /v1/steps/{step_id}")
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("handle", "written", "dollars"),
    [
        # 600 fresh, 300 from the cache and 100 written to it, which OpenAI does not tell, 50 said.
        pytest.param("openai/gpt-4.1-nano", 0, "0.00195", id="openai"),
        pytest.param("anthropic/claude-sonnet-4-5-20250929", 100, "0.001005", id="anthropic"),
    ],
)
def test_what_was_cached_and_reasoned_with_is_counted_and_has_its_price(
    letta: Letta,
    http: httpx.Client,
    new_agent: NewAgent,
    streamed: bool,
    handle: str,
    written: int,
    dollars: str,
) -> None:
    agent = new_agent(model=handle)
    counts = {"prompt": 1000, "completion": 50, "cached": 300, "written": 100, "reasoning": 20}
    script = f"USAGE:{json.dumps(counts)} {SEARCH} SAY:Done."
    if streamed:
        docs = [line.data for line in stream(http, agent.id, script, stream_tokens=True)]
        usage = docs[-2]
        run_id = docs[0]["run_id"]
    else:
        body = http.post(f"/v1/agents/{agent.id}/messages", json={"messages": says(script)}).json()
        usage = body["usage"]
        run_id = body["messages"][0]["run_id"]

    assert usage == {
        "message_type": "usage_statistics",
        "completion_tokens": 100,
        "prompt_tokens": 2000,
        "total_tokens": 2100,
        "step_count": 2,
        "run_ids": None,
        "cached_input_tokens": 600,
        "cache_write_tokens": 2 * written,
        "reasoning_tokens": 40,
        "context_tokens": 1050,
    }
    details = {"cached_tokens": 600, "cache_read_tokens": 600, "cache_creation_tokens": 2 * written}
    cost = Decimal(dollars)
    assert from_exact_json(http.get(f"/v1/runs/{run_id}/usage").text) == {
        "completion_tokens": 100,
        "prompt_tokens": 2000,
        "total_tokens": 2100,
        "prompt_tokens_details": details,
        "completion_tokens_details": {"reasoning_tokens": 40},
        "cost_usd": 2 * cost,
    }
    steps = from_exact_json(http.get(f"/v1/runs/{run_id}/steps").text)
    assert [step["cost_usd"] for step in steps] == [cost, cost]
    assert [step["price_version"] for step in steps] == ["tests-1", "tests-1"]
    step = letta.steps.retrieve(steps[0]["id"])
    assert (step.cached_input_tokens, step.cache_write_tokens) == (300, written)
    assert step.reasoning_tokens == 20
    assert step.prompt_tokens_details == {
        "cached_tokens": 300,
        "cache_read_tokens": 300,
        "cache_creation_tokens": written,
    }
    assert step.completion_tokens_details == {"reasoning_tokens": 20}
    assert step.to_dict()["cost_usd"] == float(cost), "the SDK hands on what it does not know"


@pytest.mark.operation("GET /v1/runs/{run_id}/usage")
@pytest.mark.parametrize(
    ("handle", "counts"),
    [
        pytest.param(MODEL, {"prompt": 1, "completion": 1}, id="no price"),
        pytest.param("openai/gpt-4.1-nano", {"prompt": 0, "completion": 0}, id="no tokens told"),
    ],
)
def test_what_is_not_known_is_no_cost_of_nothing(
    letta: Letta, http: httpx.Client, new_agent: NewAgent, handle: str, counts: dict[str, int]
) -> None:
    agent = new_agent(model=handle)
    run_id = asked(letta, agent.id, f"USAGE:{json.dumps(counts)} SAY:Done.")
    [step] = http.get(f"/v1/runs/{run_id}/steps").json()
    assert (step["cost_usd"], step["price_version"]) == (None, None)
    assert "cost_usd" not in http.get(f"/v1/runs/{run_id}/usage").json()


@pytest.mark.operation("GET /v1/steps/")
def test_steps_are_found_by_agent_model_time_feedback_and_tags(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    before = datetime.now(UTC) - timedelta(seconds=1)
    first, second = (steps_of(letta, asked(letta, agent.id, text))[0] for text in ("one", "two"))
    tag = unique("tag")
    letta.steps.feedback.create(first.id, feedback="positive", tags=[tag])

    def found(**query: Any) -> list[str]:
        return [step.id for step in letta.steps.list(agent_id=agent.id, **query)]

    both = [second.id, first.id]
    assert found() == both
    assert found(order="asc") == both[::-1]
    assert found(limit=1) == both, "one page after the other"
    assert found(after=second.id) == [first.id]
    assert found(before=first.id) == [second.id]
    assert found(model=MODEL) == both
    assert found(model="gpt-4o-mini") == both
    assert found(model="gpt-4") == []
    assert found(feedback="positive") == [first.id]
    assert found(feedback="negative") == []
    assert found(has_feedback=True) == [first.id]
    assert found(has_feedback=False) == [second.id]
    assert found(tags=[tag, "another"]) == [first.id]
    assert found(trace_ids=["f" * 32]) == []
    assert found(project_id="project-1") == []
    assert found(start_date=before.isoformat()) == both
    assert found(end_date=before.isoformat()) == []
    assert found(start_date=(before + timedelta(hours=1)).isoformat()) == []
    assert found(start_date=before.replace(tzinfo=None).isoformat()) == both
    assert {step.id for step in letta.steps.list(limit=2).items} == set(both), "of all agents"
    assert http.get("/v1/steps/", params={"start_date": "yesterday"}).status_code == 422
    assert http.get("/v1/steps/", params={"feedback": "great"}).status_code == 422
    assert http.get("/v1/steps/", params={"after": f"step-{NOBODY}"}).status_code == 400


@pytest.mark.operation("PATCH /v1/steps/{step_id}/feedback")
@pytest.mark.operation("PATCH /v1/steps/{step_id}/transaction/{transaction_id}")
def test_feedback_is_kept_changed_and_taken_back(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    [step] = steps_of(letta, asked(letta, agent.id, "Hello"))

    rated = letta.steps.feedback.create(step.id, feedback="negative", tags=["rude"])
    assert (rated.feedback, rated.tags) == ("negative", ["rude"])
    changed = letta.steps.feedback.create(step.id, feedback="positive")
    assert (changed.feedback, changed.tags) == ("positive", ["rude"])
    moved = http.patch(f"/v1/steps/{step.id}/transaction/tx-1").json()
    assert (moved["tid"], moved["feedback"]) == ("tx-1", "positive")
    taken_back = letta.steps.feedback.create(step.id, feedback=None, tags=[])
    assert (taken_back.feedback, taken_back.tags, taken_back.tid) == (None, [], "tx-1")
    assert letta.steps.retrieve(step.id).to_dict() == taken_back.to_dict()

    nobody = f"/v1/steps/step-{NOBODY}/feedback"
    assert http.patch(nobody, json={"feedback": "positive"}).status_code == 404
    bad = http.patch(f"/v1/steps/{step.id}/feedback", json={"feedback": "great"})
    assert bad.status_code == 422
    letta.agents.messages.create(agent.id, messages=says("And still"))


@pytest.mark.operation("GET /v1/steps/{step_id}/messages")
def test_the_messages_of_a_step_are_its_own(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    run_id = asked(letta, agent.id, SEARCH)
    called, said = steps_of(letta, run_id)

    first = list(letta.steps.messages.list(called.id))

    kinds = [message.message_type for message in first]
    assert kinds == ["user_message", "tool_call_message", "tool_return_message"]
    assert [message.id for message in letta.steps.messages.list(called.id, limit=1)] == [
        message.id for message in first
    ]
    newest = letta.steps.messages.list(called.id, order="desc", limit=1).items
    assert [message.message_type for message in newest] == ["tool_return_message"]
    last = list(letta.steps.messages.list(said.id))
    assert [message.message_type for message in last] == ["assistant_message"]
    unknown = http.get(f"/v1/steps/{said.id}/messages", params={"after": f"message-{NOBODY}"})
    assert unknown.status_code == 400


@pytest.mark.operation("GET /v1/steps/{step_id}/metrics")
@pytest.mark.operation("GET /v1/runs/{run_id}/metrics")
@pytest.mark.operation("GET /v1/steps/{step_id}/trace")
@pytest.mark.operation("GET /v1/telemetry/{step_id}")
@pytest.mark.operation("GET /v1/runs/{run_id}/trace")
def test_how_long_a_run_its_steps_and_its_tools_took(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent(tags=["blue"])
    run_id = asked(letta, agent.id, f"SLOW:150 {SEARCH}")
    called, said = steps_of(letta, run_id)

    metrics = letta.steps.metrics.retrieve(called.id)
    assert (metrics.id, metrics.run_id, metrics.agent_id) == (called.id, run_id, agent.id)
    assert metrics.llm_request_ns
    assert metrics.llm_request_ns >= 150_000_000
    assert metrics.tool_execution_ns
    assert metrics.step_ns == metrics.llm_request_ns + metrics.tool_execution_ns
    assert metrics.step_start_ns == metrics.llm_request_start_ns
    assert letta.steps.metrics.retrieve(said.id).tool_execution_ns is None

    whole = http.get(f"/v1/runs/{run_id}/metrics").json()
    [search] = [tool for tool in letta.agents.tools.list(agent.id) if "search" in str(tool.name)]
    assert whole == {
        "id": run_id,
        "organization_id": whole["organization_id"],
        "agent_id": agent.id,
        "project_id": None,
        "run_start_ns": whole["run_start_ns"],
        "run_ns": http.get(f"/v1/runs/{run_id}").json()["total_duration_ns"],
        "num_steps": 2,
        "tools_used": [search.id],
        "template_id": None,
        "base_template_id": None,
    }
    assert is_id("org", whole["organization_id"])
    assert metrics.llm_request_ns < whole["run_ns"]
    assert whole["run_start_ns"] <= (metrics.step_start_ns or 0)

    trace = letta.steps.trace.retrieve(called.id)
    assert (trace.step_id, trace.run_id, trace.agent_id) == (called.id, run_id, agent.id)
    assert (trace.call_type, trace.source, trace.agent_tags) == ("agent_step", "heeler", ["blue"])
    assert trace.request_json == {"model": MODEL, "tools": None}
    assert trace.response_json["finish_reason"] == "tool_calls"
    [call] = trace.response_json["tool_calls"]  # type: ignore[misc]
    assert call["name"] == "conversation_search"  # type: ignore[index]
    assert (trace.latency_ms or 0) >= 150
    assert http.get(f"/v1/telemetry/{called.id}").json()["id"] == trace.id

    spans = letta.runs.trace.retrieve(run_id)
    names = ["agent_run", "agent_step", "conversation_search._execute_tool", "agent_step"]
    assert [span["SpanName"] for span in spans] == names
    run, step, tool, _ = spans
    assert (run["ParentSpanId"], step["ParentSpanId"]) == ("", run["SpanId"])
    assert tool["ParentSpanId"] == step["SpanId"]
    assert {span["StatusCode"] for span in spans} == {"Ok"}
    assert {span["TraceId"] for span in spans} == {run["TraceId"]}
    assert (run["Duration"], step["Duration"]) == (whole["run_ns"], metrics.llm_request_ns)
    assert letta.runs.trace.retrieve(run_id, limit=1) == [run]
    for path in ("metrics", "trace"):
        assert http.get(f"/v1/runs/run-{NOBODY}/{path}").status_code == 404
    assert http.get(f"/v1/runs/{run_id}/trace", params={"limit": 0}).status_code == 422


@pytest.mark.operation("GET /v1/steps/")
async def test_steps_that_failed_and_that_were_cancelled_say_so(
    aletta: AsyncLetta,
    letta: Letta,
    web: httpx.AsyncClient,
    new_agent: NewAgent,
    model: ScriptedModelProcess,
) -> None:
    agent = new_agent()
    await web.post(f"/v1/agents/{agent.id}/messages", json={"messages": says("FAIL:401")})
    [failed] = letta.steps.list(agent_id=agent.id).items
    assert (failed.status, failed.stop_reason) == ("failed", "llm_api_error")
    assert failed.error_type == "llm_authentication"
    assert "401" in str(failed.error_data)
    assert (failed.model, failed.total_tokens) == ("gpt-4o-mini", None)
    trace = (await web.get(f"/v1/steps/{failed.id}/trace")).json()
    assert trace["response_json"]["error"]["message"]

    text = f"SLOW:20000 {unique('cut')}"
    sending = asyncio.create_task(aletta.agents.messages.create(agent.id, messages=says(text)))
    await model.wait_for_asked(text)
    await aletta.agents.messages.cancel(agent.id)
    await sending
    newest = (await aletta.steps.list(agent_id=agent.id)).items[0]
    assert (newest.status, newest.stop_reason) == ("cancelled", "cancelled")
    sent = (await aletta.steps.messages.list(newest.id)).items
    assert [message.message_type for message in sent] == ["user_message"]


@pytest.mark.operation("DELETE /v1/runs/{run_id}")
async def test_a_run_that_has_ended_can_be_deleted_and_its_messages_stay(
    aletta: AsyncLetta,
    letta: Letta,
    web: httpx.AsyncClient,
    new_agent: NewAgent,
    model: ScriptedModelProcess,
) -> None:
    agent = new_agent()
    run_id = asked(letta, agent.id, "Hello")
    [step] = steps_of(letta, run_id)
    history = [message.id for message in letta.agents.messages.list(agent.id)]

    deleted = await web.delete(f"/v1/runs/{run_id}")

    assert (deleted.status_code, deleted.json()) == (200, None)
    for path in (f"runs/{run_id}", f"runs/{run_id}/steps", f"steps/{step.id}"):
        assert (await web.get(f"/v1/{path}")).status_code == 404
    assert letta.runs.list(agent_id=agent.id).items == []
    assert letta.steps.list(agent_id=agent.id).items == []
    assert [message.id for message in letta.agents.messages.list(agent.id)] == history
    assert (await web.delete(f"/v1/runs/{run_id}")).status_code == 404

    text = f"SLOW:20000 {unique('still')}"
    sending = asyncio.create_task(aletta.agents.messages.create(agent.id, messages=says(text)))
    await model.wait_for_asked(text)
    [going] = letta.runs.list(agent_id=agent.id).items
    refused = await web.delete(f"/v1/runs/{going.id}")
    assert refused.status_code == 409
    assert "cancel it first" in refused.json()["detail"]
    await aletta.agents.messages.cancel(agent.id)
    await sending

    async def gone() -> bool:
        return (await web.delete(f"/v1/runs/{going.id}")).status_code == 200

    await wait_for("the cancelled run can be deleted", gone)


@pytest.mark.operation("GET /v1/steps/")
def test_the_steps_of_a_deleted_agent_are_gone(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    [step] = steps_of(letta, asked(letta, agent.id, "Hello"))
    letta.agents.delete(agent.id)
    assert http.get(f"/v1/steps/{step.id}").status_code == 404
    assert letta.steps.list(agent_id=agent.id).items == []
