"""What models are shown, through the SDK: summaries by hand and by themselves, resets, prompts."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from letta_client import BadRequestError, ConflictError, Letta, UnprocessableEntityError

from tests.e2e.asking import NOBODY, SEND, kinds, says, stream, without_keepalives
from tests.e2e.conftest import NewAgent
from tests.scripted_model import ScriptedModelProcess

SUMMARIZE = pytest.mark.operation("POST /v1/agents/{agent_id}/summarize")
COMPACT = pytest.mark.operation("POST /v1/conversations/{conversation_id}/compact")
CONTEXT = pytest.mark.operation("GET /v1/agents/{agent_id}/context")
RECOMPILE = pytest.mark.operation("POST /v1/agents/{agent_id}/recompile")
OLD_RECOMPILE = pytest.mark.operation("POST /v1/agents/{agent_id}/system-prompt/recompile")
RESET = pytest.mark.operation("PATCH /v1/agents/{agent_id}/reset-messages")
PREVIEW = pytest.mark.operation("POST /v1/agents/{agent_id}/messages/preview-raw-payload")
PREVIEW_IN = pytest.mark.operation(
    "POST /v1/conversations/{conversation_id}/messages/preview-raw-payload"
)
MODIFY = pytest.mark.operation("PATCH /v1/agents/{agent_id}/messages/{message_id}")

MODES = ["sliding_window", "all", "self_compact_all", "self_compact_sliding_window"]
SUMMARY = "We spoke of tea."
# The scripted model answers the last user message: with a mode of its own that is this prompt.
PROMPT = f"SAY:{SUMMARY}"
DEFAULT = "Hello from the scripted model."
WINDOW = 4_000
SHORT = "Be kind."


def settings(mode: str, **fields: Any) -> dict[str, Any]:
    return {"mode": mode, "prompt": PROMPT, "model": "openai/gpt-4o-mini", **fields}


def summary_by(mode: str) -> str:
    return SUMMARY if mode.startswith("self_compact") else DEFAULT


def talk(letta: Letta, agent_id: str, exchanges: int, chars: int = 20) -> None:
    for number in range(exchanges):
        text = f"question {number} {'q' * chars}"
        letta.agents.messages.create(agent_id, messages=says(text))


def history(letta: Letta, agent_id: str) -> list[Any]:
    return letta.agents.messages.list(agent_id, limit=1000, order="asc").items


def listed(http: httpx.Client, agent_id: str) -> list[Any]:
    """The history as clients see it that tell summaries apart."""
    path = f"/v1/agents/{agent_id}/messages?limit=1000&include_compaction_messages=true"
    answer = http.get(path)
    assert answer.status_code == 200
    body: list[Any] = answer.json()
    return body


@SUMMARIZE
@pytest.mark.parametrize("mode", MODES)
def test_a_client_has_a_conversation_summarised(
    letta: Letta, http: httpx.Client, new_agent: NewAgent, mode: str
) -> None:
    agent = new_agent(compaction_settings=settings(mode))
    talk(letta, agent.id, 4)
    before = history(letta, agent.id)
    compacted = letta.agents.messages.compact(agent.id)
    left = 2 if mode.endswith("all") else 7
    assert compacted.summary == summary_by(mode)
    assert (compacted.num_messages_before, compacted.num_messages_after) == (9, left)
    after = history(letta, agent.id)
    assert after[1:-1] == before[1:], "what is not shown any more can still be read"
    summary = after[-1]
    assert (summary.message_type, summary_by(mode) in summary.content) == ("user_message", True)
    told = listed(http, agent.id)
    assert [message["message_type"] for message in told[-2:]] == [
        "event_message",
        "summary_message",
    ]
    assert told[-1]["summary"] == summary_by(mode)
    assert told[-1]["compaction_stats"]["trigger"] == "manual"
    shown = letta.agents.retrieve(agent.id).message_ids
    assert shown is not None
    assert len(shown) == left
    kept = [message.id for message in before if message.message_type != "system_message"][
        -(left - 2) :
    ]
    assert shown == [before[0].id, summary.id, *(kept if left > 2 else [])]
    answer = letta.agents.messages.create(agent.id, messages=says("SAY:next"))
    assert answer.messages[-1].content == "next"  # type: ignore[union-attr]


@SUMMARIZE
def test_a_request_may_say_how(letta: Letta, new_agent: NewAgent) -> None:
    agent = new_agent(compaction_settings=settings("sliding_window"))
    talk(letta, agent.id, 4)
    asked: Any = {"mode": "self_compact_all", "prompt": "SAY:As asked.", "clip_chars": 4}
    compacted = letta.agents.messages.compact(agent.id, compaction_settings=asked)
    assert (compacted.summary, compacted.num_messages_after) == ("As a", 2)
    again = letta.agents.messages.compact(agent.id)
    assert (again.summary, again.num_messages_before, again.num_messages_after) == ("As a", 2, 2)
    kept = letta.agents.retrieve(agent.id).compaction_settings
    assert kept is not None
    assert kept.mode == "sliding_window", "for once only"


@COMPACT
@pytest.mark.parametrize(
    "field", [{"message_count": 3}, {"summary_length": "long"}, {"save_to_archival": False}]
)
def test_a_field_of_a_summary_is_refused_where_a_conversation_is_compacted(
    letta: Letta, new_agent: NewAgent, field: dict[str, Any]
) -> None:
    agent = new_agent(compaction_settings=settings("all"))
    talk(letta, agent.id, 2)
    before = letta.agents.retrieve(agent.id).message_ids
    [name] = field
    with pytest.raises(UnprocessableEntityError, match=f"`{name}` is a field of"):
        letta.conversations.messages.compact("default", agent_id=agent.id, extra_body=field)
    assert letta.agents.retrieve(agent.id).message_ids == before


@SUMMARIZE
def test_where_nothing_would_be_gained_it_is_refused(
    letta: Letta, legacy: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    with pytest.raises(BadRequestError, match="Nothing was compacted"):
        letta.agents.messages.compact(agent.id)
    talk(letta, agent.id, 2)
    answer = legacy.post(f"/v1/agents/{agent.id}/summarize", json={})
    assert (answer.status_code, answer.json()["num_messages_before"]) == (200, 5)
    unknown = legacy.post(f"/v1/agents/agent-{NOBODY}/summarize")
    assert unknown.status_code == 404


@COMPACT
def test_a_conversation_is_summarised_alone(letta: Letta, new_agent: NewAgent) -> None:
    agent = new_agent(compaction_settings=settings("self_compact_all"))
    talk(letta, agent.id, 2)
    beside = letta.conversations.create(agent_id=agent.id)
    for text in ("one", "two"):
        for _ in letta.conversations.messages.create(beside.id, messages=says(text)):
            pass
    compacted = letta.conversations.messages.compact(beside.id)
    assert (compacted.summary, compacted.num_messages_before) == (SUMMARY, 5)
    assert compacted.num_messages_after == 2
    own = letta.agents.retrieve(agent.id).message_ids
    assert own is not None
    assert len(own) == 5
    main = letta.conversations.messages.compact("default", agent_id=agent.id)
    assert main.num_messages_before == 5


@SEND
@pytest.mark.parametrize("mode", MODES)
async def test_r24_a_history_of_three_windows_is_answered(
    letta: Letta, http: httpx.Client, new_agent: NewAgent, model: ScriptedModelProcess, mode: str
) -> None:
    agent = new_agent(system=SHORT, memory_blocks=[], compaction_settings=settings(mode))
    talk(letta, agent.id, 12, chars=4_000)
    before = history(letta, agent.id)
    letta.agents.update(agent.id, context_window_limit=WINDOW)
    lines = stream(http, agent.id, "SAY:still here", include_compaction_messages=True)
    assert kinds(without_keepalives(lines)) == [
        "ping",
        "event_message",
        "summary_message",
        "assistant_message",
        "stop_reason",
        "usage_statistics",
        "[DONE]",
    ]
    event, summary = lines[1].data, lines[2].data
    assert event["event_data"]["trigger"] == "pre_step_context_check"
    assert event["event_data"]["context_window"] == WINDOW
    assert summary["compaction_stats"]["messages_count_before"] == 26
    assert lines[3].data["content"] == "still here"
    usage = next(line.data for line in lines if line.data.get("message_type") == "usage_statistics")
    assert 0 < usage["context_tokens"] < WINDOW
    assert history(letta, agent.id)[1 : len(before)] == before[1:]
    answer = letta.agents.messages.create(agent.id, messages=says("SAY:and again"))
    assert answer.messages[-1].content == "and again"  # type: ignore[union-attr]


@SEND
async def test_r24_a_summariser_that_fails_stops_nobody(
    letta: Letta, new_agent: NewAgent, model: ScriptedModelProcess
) -> None:
    await model.refuse("summariser-that-fails", 400)
    how = settings("all", prompt="summariser-that-fails")
    agent = new_agent(system=SHORT, memory_blocks=[], compaction_settings=how)
    talk(letta, agent.id, 12, chars=4_000)
    letta.agents.update(agent.id, context_window_limit=WINDOW)
    answer = letta.agents.messages.create(agent.id, messages=says("SAY:still here"))
    summary, said = answer.messages
    assert said.content == "still here"  # type: ignore[union-attr]
    assert summary.message_type == "user_message"
    assert "No model could summarise" in str(summary.content)
    assert "user: question" in str(summary.content)
    assert len(history(letta, agent.id)) == 1 + 24 + 1 + 2


@SEND
async def test_a_model_that_has_less_room_than_is_said_is_asked_for_less(
    letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent(
        system="WINDOW:3000", memory_blocks=[], compaction_settings=settings("sliding_window")
    )
    sent = [f"SAY:{number} {'a' * 2_000}" for number in range(12)]
    for text in sent:
        answer = letta.agents.messages.create(agent.id, messages=says(text))
        assert str(answer.messages[-1].content).endswith("a" * 2_000)  # type: ignore[union-attr]
    said = [
        message.content
        for message in history(letta, agent.id)
        if message.message_type == "user_message"
    ]
    assert [content for content in said if content in sent] == sent


@SEND
def test_a_message_larger_than_the_window_is_answered(letta: Letta, new_agent: NewAgent) -> None:
    agent = new_agent(
        system=f"{SHORT} WINDOW:{WINDOW}",
        memory_blocks=[],
        context_window_limit=WINDOW,
        compaction_settings=settings("all"),
    )
    large = "x" * 60_000
    answer = letta.agents.messages.create(agent.id, messages=says(large))
    assert answer.stop_reason.stop_reason == "end_turn"
    assert large in [getattr(message, "content", "") for message in history(letta, agent.id)]
    again = letta.agents.messages.create(agent.id, messages=says("SAY:next"))
    assert again.messages[-1].content == "next"  # type: ignore[union-attr]


@SEND
def test_a_system_prompt_that_fills_the_window_is_said_to_be_too_long(
    http: httpx.Client, letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent(system="s" * 5_000, context_window_limit=1_000)
    answer = http.post(f"/v1/agents/{agent.id}/messages", json={"messages": says("hi")})
    reason = "context_window_overflow_in_system_prompt"
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, reason)
    lines = stream(http, agent.id, "hi")
    told = [line.data for line in lines if isinstance(line.data, dict)]
    assert [entry["stop_reason"] for entry in told if "stop_reason" in entry] == [reason]
    assert [entry["error_type"] for entry in told if "error_type" in entry] == [reason]
    letta.agents.update(agent.id, context_window_limit=20_000)
    done = letta.agents.messages.create(agent.id, messages=says("SAY:better"))
    assert done.messages[-1].content == "better"  # type: ignore[union-attr]


@CONTEXT
def test_the_context_window_is_shown_with_its_parts(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent(compaction_settings=settings("self_compact_sliding_window"))
    talk(letta, agent.id, 4)
    compacted = letta.agents.messages.compact(agent.id)
    shown = http.get(f"/v1/agents/{agent.id}/context").json()
    parts = [value for name, value in shown.items() if name.startswith("num_tokens_")]
    assert shown["context_window_size_current"] == sum(parts)
    assert shown["context_window_size_max"] == 128_000
    assert shown["num_messages"] == compacted.num_messages_after
    assert shown["num_recall_memory"] == 10
    assert SUMMARY in shown["summary_memory"]
    assert "Name: Ada" in shown["core_memory"]
    assert agent.id in shown["external_memory_summary"]
    assert {function["function"]["name"] for function in shown["functions_definitions"]} == {
        "conversation_search",
        "memory_insert",
        "memory_replace",
    }
    assert [message["role"] for message in shown["messages"]][:3] == ["system", "user", "assistant"]
    assert (
        http.get("/v1/agents/agent-00000000-0000-4000-8000-000000000009/context").status_code == 404
    )
    other = (
        f"/v1/agents/{agent.id}/context?conversation_id=conv-00000000-0000-4000-8000-000000000009"
    )
    assert http.get(other).status_code == 404


@RESET
def test_a_reset_agent_remembers_nothing_and_keeps_its_history(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    talk(letta, agent.id, 2)
    before = history(letta, agent.id)
    reset = letta.agents.messages.reset(agent.id, add_default_initial_messages=True)
    assert reset is not None
    assert reset.message_ids == [before[0].id]
    assert [message.id for message in history(letta, agent.id)] == [
        message.id for message in before
    ]
    answer = letta.agents.messages.create(agent.id, messages=says("ECHO"))
    assert str(answer.messages[-1].content).startswith("messages=2 ")  # type: ignore[union-attr]


@RESET
async def test_a_busy_agent_is_not_reset(
    letta: Letta, new_agent: NewAgent, model: ScriptedModelProcess
) -> None:
    agent = new_agent()
    run = letta.agents.messages.create_async(agent.id, messages=says(f"SLOW:3000 {agent.id}"))
    await model.wait_for_asked(f"SLOW:3000 {agent.id}")
    with pytest.raises(ConflictError, match=run.id) as refused:
        letta.agents.messages.reset(agent.id)
    assert refused.value.response.headers["x-should-retry"] == "false"
    letta.agents.messages.cancel(agent.id)
    assert letta.agents.messages.reset(agent.id) is not None


@RECOMPILE
@OLD_RECOMPILE
def test_the_system_prompt_is_compiled_anew(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    first = history(letta, agent.id)[0].content
    letta.agents.blocks.update("human", agent_id=agent.id, value="Name: Grace")
    shown = letta.agents.recompile(agent.id, dry_run=True)
    assert "Name: Grace" in shown
    assert history(letta, agent.id)[0].content == first, "only shown"
    assert "Name: Grace" in letta.agents.recompile(agent.id)
    assert "Name: Grace" in history(letta, agent.id)[0].content
    old = http.post(f"/v1/agents/{agent.id}/system-prompt/recompile")
    assert "Name: Grace" in old.json()


@PREVIEW
@PREVIEW_IN
def test_what_a_model_would_be_asked_is_shown_and_not_asked(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    talk(letta, agent.id, 1)
    before = [message.id for message in history(letta, agent.id)]
    path = f"/v1/agents/{agent.id}/messages/preview-raw-payload"
    payload = http.post(path, json={"messages": says("What if?")}).json()
    assert payload["model"] == "gpt-4o-mini"
    assert [message["role"] for message in payload["messages"]] == [
        "system",
        "user",
        "assistant",
        "user",
    ]
    assert payload["messages"][-1]["content"] == "What if?"
    assert {tool["function"]["name"] for tool in payload["tools"]} >= {"memory_insert"}
    assert [message.id for message in history(letta, agent.id)] == before
    beside = letta.conversations.create(agent_id=agent.id)
    path = f"/v1/conversations/{beside.id}/messages/preview-raw-payload"
    payload = http.post(path, json={"messages": says("What if?")}).json()
    assert [message["role"] for message in payload["messages"]] == ["system", "user"]
    claude = new_agent(model="anthropic/claude-haiku-4-5")
    path = f"/v1/agents/{claude.id}/messages/preview-raw-payload"
    payload = http.post(path, json={"messages": says("What if?")}).json()
    assert payload["system"][0]["type"] == "text"


@MODIFY
def test_messages_do_not_change(letta: Letta, http: httpx.Client, new_agent: NewAgent) -> None:
    agent = new_agent()
    first = history(letta, agent.id)[0]
    body = {"message_type": "system_message", "content": "Be rude."}
    refused = http.patch(f"/v1/agents/{agent.id}/messages/{first.id}", json=body)
    assert (refused.status_code, "cannot be changed" in refused.json()["detail"]) == (405, True)
    assert history(letta, agent.id)[0] == first


@SEND
def test_an_agent_that_clears_its_buffer_is_shown_one_message(
    letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent(message_buffer_autoclear=True)
    talk(letta, agent.id, 2)
    answer = letta.agents.messages.create(agent.id, messages=says("ECHO"))
    assert str(answer.messages[-1].content).startswith("messages=2 ")  # type: ignore[union-attr]
    assert len(history(letta, agent.id)) == 7
    assert json.loads(agent.model_dump_json())["message_buffer_autoclear"] is True
