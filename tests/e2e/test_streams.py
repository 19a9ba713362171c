"""Messages that are answered as a stream, and what a stream says when the model fails."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from letta_client import APIError, Letta

from tests.e2e.asking import (
    HELLO,
    MESSAGE_DATE,
    SEND,
    STREAM,
    is_id,
    kinds,
    lines_of,
    says,
    stream,
    without_keepalives,
)
from tests.e2e.conftest import NewAgent

CALL = 'CALL:memory_insert:{"label":"human","new_string":"Likes tea"}'


@STREAM
def test_a_stream_tells_the_run_its_steps_and_its_end(
    http: httpx.Client, letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent()

    lines = stream(http, agent.id, CALL)

    assert kinds(lines) == [
        "ping",
        "tool_call_message",
        "tool_return_message",
        "assistant_message",
        "stop_reason",
        "usage_statistics",
        "[DONE]",
    ]
    assert [line.id for line in lines] == ["1", "2", "3", "4", None, None, None]
    assert {line.event for line in lines} == {None}
    ping, call, returned, said, reason, usage, _ = (line.data for line in lines)
    run_id = ping["run_id"]
    assert is_id("run", run_id)
    assert is_id("ping", ping["id"])
    assert MESSAGE_DATE.fullmatch(ping["date"])
    nothing = dict.fromkeys(["name", "otid", "sender_id", "step_id", "is_err", "seq_id"])
    assert ping == {
        **nothing,
        "message_type": "ping",
        "id": ping["id"],
        "date": ping["date"],
        "run_id": run_id,
    }
    assert {call["run_id"], returned["run_id"], said["run_id"]} == {run_id}
    assert returned["tool_return"] == "Name: Ada\nLikes tea"
    assert said["content"] == HELLO
    assert reason == {"message_type": "stop_reason", "stop_reason": "end_turn"}
    assert usage["step_count"] == 2
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 0
    history = http.get(f"/v1/agents/{agent.id}/messages").json()
    assert history[-3:] == [call, returned, said]
    assert letta.runs.retrieve(run_id).stop_reason == "end_turn"


@SEND
def test_streaming_true_is_a_stream_for_new_clients_only(
    http: httpx.Client, legacy: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    path = f"/v1/agents/{agent.id}/messages"
    body = {"messages": says("Hello"), "streaming": True}

    answer = http.post(path, json=body)
    assert kinds(lines_of(answer.text)) == [
        "ping",
        "assistant_message",
        "stop_reason",
        "usage_statistics",
        "[DONE]",
    ]
    refused = legacy.post(path, json=body)
    assert refused.status_code == 422
    assert "/messages/stream" in refused.json()["detail"]
    assert kinds(lines_of(legacy.post(f"{path}/stream", json=body).text))[-1] == "[DONE]"
    for field in ("stream_tokens", "background"):
        alone = http.post(path, json={"messages": says("Hello"), field: True})
        assert alone.status_code == 422
        assert "streaming" in alone.json()["detail"]


@STREAM
def test_the_sdk_reads_a_stream(letta: Letta, new_agent: NewAgent) -> None:
    agent = new_agent()

    with letta.agents.messages.stream(agent.id, messages=says(CALL)) as events:
        read: list[Any] = list(events)

    assert [event.message_type for event in read] == [
        "ping",
        "tool_call_message",
        "tool_return_message",
        "assistant_message",
        "stop_reason",
        "usage_statistics",
    ]
    assert json.loads(read[1].tool_call.arguments)["new_string"] == "Likes tea"
    assert read[2].status == "success"
    assert read[3].content == HELLO
    assert read[4].stop_reason == "end_turn"
    assert read[5].step_count == 2


@STREAM
def test_a_stream_may_leave_kinds_out(http: httpx.Client, new_agent: NewAgent) -> None:
    agent = new_agent()

    lines = stream(http, agent.id, CALL, include_return_message_types=["assistant_message"])

    assert kinds(lines) == [
        "ping",
        "assistant_message",
        "stop_reason",
        "usage_statistics",
        "[DONE]",
    ]
    assert lines[1].id == "4"


@STREAM
def test_a_silent_stream_is_kept_alive_with_pings(http: httpx.Client, new_agent: NewAgent) -> None:
    agent = new_agent()

    lines = stream(http, agent.id, "SLOW:2600")
    told = kinds(lines)

    assert told[0] == "ping"
    assert told.count("ping") >= 2
    assert [kind for kind in told if kind != "ping"] == [
        "assistant_message",
        "stop_reason",
        "usage_statistics",
        "[DONE]",
    ]
    pings = [line.data for line in lines if line.data != "[DONE]"
             and line.data["message_type"] == "ping"]  # fmt: skip
    assert len({ping["run_id"] for ping in pings}) == 1
    assert len({ping["id"] for ping in pings}) == len(pings)
    quiet = stream(http, agent.id, "SLOW:1600", include_pings=False)
    assert kinds(quiet).count("ping") == 1


FAILURES = [
    ("FAIL:401", 401, "llm_authentication", "llm_api_error", "Incorrect API key"),
    ("FAIL:403", 403, "llm_permission_denied", "llm_api_error", "403"),
    ("FAIL:404", 404, "llm_not_found", "llm_api_error", "404"),
    ("FAIL:429", 429, "llm_rate_limit", "llm_api_error", "429"),
    ("FAIL:500", 500, "llm_error", "llm_api_error", "500"),
    ("FAIL:insufficient_quota", 402, "llm_insufficient_credits", "insufficient_credits", "quota"),
    (
        "FAIL:context_length_exceeded",
        400,
        "context_window_exceeded",
        "llm_api_error",
        "context length",
    ),
    ("CUT", 502, "llm_connection_error", "llm_api_error", "cannot be reached"),
    ("GARBAGE", 500, "llm_error", "invalid_llm_response", "cannot be understood"),
]


@STREAM
@SEND
@pytest.mark.parametrize(
    ("script", "status", "kind", "reason", "said"),
    FAILURES,
    ids=[failure[0] for failure in FAILURES],
)
def test_a_failing_model_is_told_and_the_next_message_works(
    letta: Letta,
    http: httpx.Client,
    new_agent: NewAgent,
    script: str,
    status: int,
    kind: str,
    reason: str,
    said: str,
) -> None:
    agent = new_agent()

    lines = without_keepalives(stream(http, agent.id, script))
    whole = http.post(f"/v1/agents/{agent.id}/messages", json={"messages": says(script)})

    assert kinds(lines) == ["ping", "stop_reason", "error_message", "[DONE]"]
    assert [line.event for line in lines] == [None, None, "error", None]
    assert lines[1].data["stop_reason"] == reason
    problem = lines[2].data
    assert problem.keys() == {
        "message_type",
        "run_id",
        "error_type",
        "message",
        "detail",
        "seq_id",
    }
    assert problem["error_type"] == kind
    assert problem["run_id"] == lines[0].data["run_id"]
    assert said in problem["message"]
    assert whole.status_code == status
    assert whole.headers["x-should-retry"] == "false"
    error = whole.json()["error"]
    assert error.keys() == {"type", "message", "detail"}
    assert error["type"] == kind
    assert said in error["message"]
    with (
        pytest.raises(APIError) as raised,
        letta.agents.messages.stream(agent.id, messages=says(script)) as events,
    ):
        list(events)
    assert kind in str(raised.value.body)
    runs = letta.runs.list(agent_id=agent.id).items
    assert [(run.status, run.stop_reason) for run in runs] == [("failed", reason)] * 3
    assert letta.agents.retrieve(agent.id).last_stop_reason == reason
    answer = letta.agents.messages.create(agent.id, messages=says("Hello again"))
    assert answer.messages[0].content == HELLO  # type: ignore[union-attr]


@STREAM
def test_what_was_done_before_a_failure_stays(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()

    lines = stream(http, agent.id, f"{CALL} FAIL:401")

    assert kinds(lines) == [
        "ping",
        "tool_call_message",
        "tool_return_message",
        "stop_reason",
        "error_message",
        "[DONE]",
    ]
    value = letta.agents.blocks.retrieve("human", agent_id=agent.id).value
    assert value == "Name: Ada\nLikes tea"
    assert letta.runs.usage.retrieve(lines[0].data["run_id"]).total_tokens > 0  # type: ignore[operator]
    answer = letta.agents.messages.create(agent.id, messages=says("Hello again"))
    assert answer.messages[0].content == HELLO  # type: ignore[union-attr]


@STREAM
@SEND
def test_a_model_that_fails_once_is_asked_again(letta: Letta, new_agent: NewAgent) -> None:
    agent = new_agent()

    answer = letta.agents.messages.create(agent.id, messages=says("FAIL:500:1"))

    assert answer.messages[0].content == HELLO  # type: ignore[union-attr]
    assert answer.usage.step_count == 1


@STREAM
@SEND
def test_an_empty_answer_ends_the_turn_and_a_cut_one_says_so(
    http: httpx.Client, letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent()

    empty = stream(http, agent.id, "EMPTY")
    cut = stream(http, agent.id, "LENGTH SAY:The end is miss")

    assert kinds(empty) == ["ping", "stop_reason", "usage_statistics", "[DONE]"]
    assert empty[1].data["stop_reason"] == "end_turn"
    assert kinds(cut) == ["ping", "assistant_message", "stop_reason", "usage_statistics", "[DONE]"]
    assert cut[1].data["content"] == "The end is miss"
    assert cut[2].data["stop_reason"] == "max_tokens_exceeded"
    whole = letta.agents.messages.create(agent.id, messages=says("EMPTY"))
    assert (whole.messages, whole.stop_reason.stop_reason) == ([], "end_turn")
    answer = letta.agents.messages.create(agent.id, messages=says("Hello again"))
    assert answer.messages[0].content == HELLO  # type: ignore[union-attr]


@STREAM
def test_a_client_that_leaves_changes_nothing(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    path = f"/v1/agents/{agent.id}/messages/stream"
    body = {"messages": says(f"SLOW:300 {CALL}")}

    with http.stream("POST", path, json=body) as response:
        assert next(response.iter_lines()) == "id: 1"

    letta.agents.messages.create(agent.id, messages=says("Hello"))
    history = [message.message_type for message in letta.agents.messages.list(agent.id)]
    assert history == [
        "system_message",
        "user_message",
        "tool_call_message",
        "tool_return_message",
        "assistant_message",
        "user_message",
        "assistant_message",
    ]
