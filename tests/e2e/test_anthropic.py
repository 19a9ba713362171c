"""Agents on Anthropic's models: what they think, say and call, whole and as streams."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from letta_client import APIStatusError, AsyncLetta, Letta
from letta_client.types import AgentState

from tests.e2e.asking import (
    CLAUDE,
    HELLO,
    SEND,
    STREAM,
    Line,
    kinds,
    says,
    stream,
    without_keepalives,
)
from tests.e2e.conftest import NewAgent
from tests.scripted_model import ScriptedModelProcess

RECORDED = Path(__file__).parents[1] / "recorded"


@pytest.fixture
def agent(new_agent: NewAgent) -> AgentState:
    return new_agent(model=CLAUDE)


async def last_request(model: ScriptedModelProcess) -> Any:
    """What the model was asked last."""
    return (await model.requests(last=1))[0]


@pytest.mark.operation("POST /v1/agents/")
def test_an_agent_is_set_up_as_the_genuine_server_does(
    http: httpx.Client, model: ScriptedModelProcess
) -> None:
    recorded = json.loads((RECORDED / "agent_create_anthropic.json").read_text())
    made = http.post("/v1/agents/", json=recorded["request"]["body"]).json()

    assert made.keys() - {"capabilities"} == recorded["body"].keys()
    endpoint = {"model_endpoint": f"{model.anthropic_base_url}/v1"}
    assert made["llm_config"] == {**recorded["body"]["llm_config"], **endpoint}
    assert made["model_settings"] == recorded["body"]["model_settings"]
    assert made["compaction_settings"]["model"] == "anthropic/claude-haiku-4-5"
    assert made["model"] == recorded["body"]["model"]


@pytest.mark.operation("GET /v1/models/")
def test_the_models_are_listed_as_the_genuine_server_does(
    letta: Letta, http: httpx.Client, model: ScriptedModelProcess
) -> None:
    recorded = json.loads((RECORDED / "models_list.json").read_text())["body"]
    wanted = {model["handle"]: model for model in recorded if model["provider_name"] == "anthropic"}
    listed = http.get("/v1/models/", params={"provider_name": "anthropic"}).json()

    assert [model["handle"] for model in listed] == list(wanted)
    endpoint = {"model_endpoint": f"{model.anthropic_base_url}/v1"}
    for listed_model in listed:
        assert listed_model == {**wanted[listed_model["handle"]], **endpoint}
    assert all(
        model.provider_type == "anthropic" for model in letta.models.list(provider_name="anthropic")
    )


@SEND
async def test_a_message_is_answered(
    letta: Letta, agent: AgentState, model: ScriptedModelProcess
) -> None:
    answer = letta.agents.messages.create(agent.id, messages=says("Hi there"))

    [said] = answer.messages
    assert (said.message_type, said.content) == ("assistant_message", HELLO)
    assert answer.stop_reason.stop_reason == "end_turn"
    usage = answer.usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens > 0
    asked = await last_request(model)
    assert asked["thinking"] == {"type": "enabled", "budget_tokens": 1024}
    assert "stream" not in asked
    assert "1→ Name: Ada" in asked["system"][0]["text"], "lines are numbered for these models"


@SEND
def test_a_tool_is_called_and_its_result_is_seen(letta: Letta, agent: AgentState) -> None:
    script = 'CALL:memory_insert:{"label":"human","new_string":"Likes tea"} SAY:Noted.'
    answer = letta.agents.messages.create(agent.id, messages=says(script))

    call, returned, said = answer.messages
    assert call.message_type == "tool_call_message"
    assert call.tool_call.tool_call_id.startswith("toolu_")
    assert call.tool_call.arguments == '{"label": "human", "new_string": "Likes tea"}'
    assert returned.tool_return == "Name: Ada\nLikes tea"
    assert returned.tool_call_id == call.tool_call.tool_call_id
    assert said.content == "Noted."
    assert answer.usage.step_count == 2


@SEND
async def test_calls_at_the_same_time_get_their_results_together(
    letta: Letta, new_agent: NewAgent, model: ScriptedModelProcess
) -> None:
    agent = new_agent(model=CLAUDE, parallel_tool_calls=True)
    calls = [{"name": "conversation_search", "arguments": {"query": word}} for word in ("a", "b")]
    answer = letta.agents.messages.create(agent.id, messages=says(f"CALLS:{json.dumps(calls)}"))

    assert [message.message_type for message in answer.messages] == [
        "tool_call_message",
        "tool_return_message",
        "tool_return_message",
        "assistant_message",
    ]
    asked = await last_request(model)
    assert asked["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": False}
    results = asked["messages"][-1]["content"]
    assert [block["type"] for block in results] == ["tool_result", "tool_result"]


@SEND
@pytest.mark.operation("GET /v1/agents/{agent_id}/messages")
async def test_thoughts_are_told_and_go_back_as_they_came(
    letta: Letta, agent: AgentState, model: ScriptedModelProcess
) -> None:
    script = 'THINK:"Look it up." REDACTED CALL:conversation_search THINK:"So." SAY:Found it.'
    answer = letta.agents.messages.create(agent.id, messages=says(script))

    assert [message.message_type for message in answer.messages] == [
        "reasoning_message",
        "hidden_reasoning_message",
        "tool_call_message",
        "tool_return_message",
        "reasoning_message",
        "assistant_message",
    ]
    clear, hidden, call, _, later, said = answer.messages
    assert (clear.reasoning, clear.source) == ("Look it up.", "reasoner_model")
    assert clear.signature
    assert hidden.state == "redacted"
    assert hidden.hidden_reasoning
    assert (later.reasoning, said.content) == ("So.", "Found it.")
    assert clear.id == hidden.id == call.id
    assert len({clear.otid, hidden.otid, call.otid}) == 3
    asked = await last_request(model)
    called = asked["messages"][-2]["content"]
    assert called[:2] == [
        {"type": "thinking", "thinking": "Look it up.", "signature": clear.signature},
        {"type": "redacted_thinking", "data": hidden.hidden_reasoning},
    ]
    history = letta.agents.messages.list(agent.id, limit=100, order="asc").items
    assert [message.to_dict() for message in history[-6:]] == [
        message.to_dict() for message in answer.messages
    ]


@SEND
async def test_an_agent_that_shall_not_think_is_not_asked_to(
    letta: Letta, new_agent: NewAgent, model: ScriptedModelProcess
) -> None:
    settings = {"provider_type": "anthropic", "thinking": {"type": "disabled"}, "temperature": 0.3}
    agent = new_agent(model=CLAUDE, model_settings=settings)
    answer = letta.agents.messages.create(agent.id, messages=says('THINK:"Well." SAY:Hi'))

    assert [message.message_type for message in answer.messages] == ["assistant_message"]
    asked = await last_request(model)
    assert "thinking" not in asked
    assert asked["temperature"] == 0.3


@STREAM
def test_a_step_stream_tells_thoughts_calls_and_words(
    http: httpx.Client, letta: Letta, agent: AgentState
) -> None:
    script = 'THINK:"Look." CALL:conversation_search SAY:Found it.'
    lines = stream(http, agent.id, script)

    assert kinds(lines) == [
        "ping",
        "reasoning_message",
        "tool_call_message",
        "tool_return_message",
        "assistant_message",
        "stop_reason",
        "usage_statistics",
        "[DONE]",
    ]
    with letta.agents.messages.stream(agent.id, messages=says(script)) as events:
        assert [event.message_type for event in events] == kinds(lines)[:-1]


@SEND
@STREAM
@pytest.mark.parametrize(
    ("script", "status", "kind"),
    [
        ("FAIL:401", 401, "llm_authentication"),
        ("FAIL:429", 429, "llm_rate_limit"),
        ("FAIL:529", 503, "llm_provider_overloaded"),
        ("FAIL:insufficient_quota", 402, "llm_insufficient_credits"),
        ("FAIL:context_length_exceeded", 400, "context_window_exceeded"),
        ("GARBAGE", 500, "llm_error"),
    ],
)
def test_a_failing_model_is_told_and_the_next_message_works(
    letta: Letta, http: httpx.Client, agent: AgentState, script: str, status: int, kind: str
) -> None:
    with pytest.raises(APIStatusError) as raised:
        letta.agents.messages.create(agent.id, messages=says(script))
    assert raised.value.status_code == status
    lines = stream(http, agent.id, script)
    assert kinds(lines) == ["ping", "stop_reason", "error_message", "[DONE]"]
    assert lines[2].data["error_type"] == kind

    again = letta.agents.messages.create(agent.id, messages=says("SAY:Still here."))
    assert again.messages[-1].content == "Still here."


@SEND
async def test_an_agent_may_change_to_another_providers_model_and_back(
    letta: Letta, agent: AgentState, model: ScriptedModelProcess
) -> None:
    call = 'THINK:"Hm." CALL:conversation_search SAY:done'
    for handle in (CLAUDE, "openai/gpt-4o-mini", CLAUDE):
        letta.agents.update(agent.id, model=handle)
        answer = letta.agents.messages.create(agent.id, messages=says(call))
        assert answer.messages[-1].content == "done"
    assert (await model.stats())["validation_errors"] == 0


def told(lines: list[Line], kind: str) -> list[Any]:
    """The messages of one kind in a stream."""
    return [
        line.data for line in lines if line.data != "[DONE]" and line.data["message_type"] == kind
    ]


@STREAM
def test_tokens_come_in_the_pieces_that_the_model_sends(
    http: httpx.Client, agent: AgentState
) -> None:
    lines = stream(http, agent.id, "Hi there", stream_tokens=True)

    pieces = told(lines, "assistant_message")
    assert [delta["content"] for delta in pieces] == ["Hello fr", "om the s", "cripted ", "model."]
    assert len({(delta["id"], delta["otid"]) for delta in pieces}) == 1
    [said] = http.get(f"/v1/agents/{agent.id}/messages").json()[-1:]
    assert (said["id"], said["content"]) == (pieces[0]["id"], HELLO)


@STREAM
def test_tokens_of_thoughts_and_calls_add_up_to_the_history(
    http: httpx.Client, letta: Letta, agent: AgentState
) -> None:
    script = (
        'THINK:"That is worth keeping." '
        'CALL:memory_insert:{"label":"human","new_string":"likes tea","insert_line":-1} SAY:Noted.'
    )
    lines = without_keepalives(stream(http, agent.id, script, stream_tokens=True))

    thought, called, *_ = http.get(f"/v1/agents/{agent.id}/messages").json()[-4:]
    pieces = told(lines, "reasoning_message")
    assert len(pieces) > 2
    assert "".join(delta["reasoning"] for delta in pieces) == thought["reasoning"]
    assert [delta["signature"] for delta in pieces if delta["signature"]] == [thought["signature"]]
    assert {delta["otid"] for delta in pieces} == {thought["otid"]}
    name, *arguments = (part["tool_call"] for part in told(lines, "tool_call_message"))
    assert name == {"name": "memory_insert", "tool_call_id": called["tool_call"]["tool_call_id"]}
    assert [argument["arguments"] for argument in arguments] == [
        '{"label": "human',
        '", "new_string":',
        ' "likes tea", "i',
        'nsert_line": -1}',
    ]
    with letta.agents.messages.stream(
        agent.id, messages=says(script), stream_tokens=True
    ) as events:
        kinds_read = {event.message_type for event in events}
    assert {"reasoning_message", "tool_call_message", "assistant_message"} <= kinds_read


@pytest.mark.operation("POST /v1/agents/{agent_id}/messages/cancel")
async def test_a_cancelled_run_hangs_up_on_the_model(
    aletta: AsyncLetta, agent: AgentState, model: ScriptedModelProcess
) -> None:
    before = (await model.stats())["counts"].get("abandoned", 0)
    text = f"DRIP:500 SAY:{'A long answer. ' * 40}{agent.id}"
    async with await aletta.agents.messages.stream(
        agent.id, messages=says(text), stream_tokens=True
    ) as events:
        async for event in events:
            if event.message_type == "assistant_message":
                await aletta.agents.messages.cancel(agent.id)
                break
        rest = [event async for event in events]
    await model.wait_for_count("abandoned", times=before + 1)
    assert rest[-1].stop_reason == "cancelled"
