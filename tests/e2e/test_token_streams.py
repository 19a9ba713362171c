"""Answers that are streamed token by token, in the background, resumed, and sent twice."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any
from uuid import uuid4

import httpx
import pytest
from letta_client import Letta

from tests.e2e.asking import STREAM, Line, kinds, lines_of, says, stream, without_keepalives
from tests.e2e.conftest import NewAgent

RESUME = pytest.mark.operation("POST /v1/runs/{path_run_id}/stream")
CALL = 'CALL:memory_insert:{"label":"human","new_string":"Likes tea"}'
TEXT = "The quick brown fox jumps over the lazy dog, and then it rests for a while."


def texts(events: list[Any]) -> dict[str, str]:
    """The words of each assistant message, put together from the pieces."""
    whole: dict[str, str] = defaultdict(str)
    for event in events:
        if event["message_type"] == "assistant_message":
            whole[event["id"]] += event["content"]
    return dict(whole)


def history(http: httpx.Client, agent_id: str) -> list[Any]:
    return list(http.get(f"/v1/agents/{agent_id}/messages").json())


def resumed(http: httpx.Client, run_id: str, **asked: Any) -> list[Line]:
    headers = asked.pop("headers", {})
    answer = http.post(f"/v1/runs/{run_id}/stream", json=asked, headers=headers)
    assert answer.status_code == 200, answer.text
    return lines_of(answer.text)


@STREAM
def test_tokens_come_one_by_one_and_add_up_to_the_history(
    http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()

    lines = without_keepalives(stream(http, agent.id, f"{CALL} SAY:{TEXT}", stream_tokens=True))

    told = [line.data for line in lines[1:-3]]
    assert kinds(lines)[-3:] == ["stop_reason", "usage_statistics", "[DONE]"]
    assert [line.id for line in lines[:-3]] == [str(n + 1) for n in range(len(lines) - 3)]
    assert {chunk["seq_id"] for chunk in told} == {None}
    called = [message for message in told if message["message_type"] == "tool_call_message"]
    assert len(called) > 2
    assert called[0]["tool_calls"] == called[0]["tool_call"]
    assert called[0]["tool_calls"]["name"] == "memory_insert"
    assert "arguments" not in called[0]["tool_calls"]
    pieces = [call_chunk["tool_calls"]["arguments"] for call_chunk in called[1:]]
    assert json.loads("".join(pieces)) == {"label": "human", "new_string": "Likes tea"}
    assert len([message for message in told if message["message_type"] == "assistant_message"]) > 5
    call, returned, said = history(http, agent.id)[-3:]
    assert {call["id"] for call in called} == {call["id"]}
    assert {(message["otid"], message["step_id"]) for message in called} == {
        (call["otid"], call["step_id"])
    }
    assert returned in told
    assert texts(told) == {said["id"]: TEXT} == {said["id"]: said["content"]}


@STREAM
def test_the_sdk_reads_tokens(letta: Letta, new_agent: NewAgent) -> None:
    agent = new_agent()

    with letta.agents.messages.stream(
        agent.id, messages=says(f"{CALL} SAY:{TEXT}"), stream_tokens=True
    ) as events:
        read: list[Any] = [event.model_dump(mode="json") for event in events]

    assert read[0]["message_type"] == "ping"
    assert [*texts(read).values()] == [TEXT]
    assert read[-1]["message_type"] == "usage_statistics"


@STREAM
def test_a_model_that_breaks_off_in_the_middle_leaves_nothing_behind(
    http: httpx.Client, letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent()

    lines = without_keepalives(stream(http, agent.id, f"CUT SAY:{TEXT}", stream_tokens=True))

    assert kinds(lines)[-3:] == ["stop_reason", "error_message", "[DONE]"]
    assert lines[-2].event == "error"
    assert lines[-2].data["error_type"] == "llm_connection_error"
    assert [message["message_type"] for message in history(http, agent.id)] == [
        "system_message",
        "user_message",
    ]
    answer = letta.agents.messages.create(agent.id, messages=says(f"SAY:{TEXT}"))
    assert answer.messages[0].content == TEXT  # type: ignore[union-attr]


@STREAM
@RESUME
@pytest.mark.parametrize("tokens", [True, False])
def test_a_background_run_can_be_read_again_from_any_number(
    http: httpx.Client, new_agent: NewAgent, tokens: bool
) -> None:
    agent = new_agent()
    asked = f"{CALL} SAY:{TEXT}"

    first = stream(http, agent.id, asked, background=True, stream_tokens=tokens)

    numbered = [line for line in first if line.id]
    assert [line.data["seq_id"] for line in numbered] == [int(str(line.id)) for line in numbered]
    assert [line.id for line in numbered] == [str(n + 1) for n in range(len(numbered))]
    assert kinds(first)[0] == "ping"
    run_id = first[0].data["run_id"]
    assert http.get(f"/v1/runs/{run_id}").json()["background"] is True
    again = resumed(http, run_id)
    assert again[1:] == first[1:]
    for seen in (1, 2, 3, len(numbered) - 1, len(numbered)):
        rest = [line for line in first[seen:] if line.id] + first[-3:]
        assert resumed(http, run_id, starting_after=seen) == rest
        assert resumed(http, run_id, headers={"last-event-id": str(seen)}) == rest


@RESUME
def test_what_cannot_be_resumed_says_why(
    http: httpx.Client, letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent()
    foreground = stream(http, agent.id, "Hello")[0].data["run_id"]

    refused = http.post(f"/v1/runs/{foreground}/stream", json={})
    unknown = http.post(f"/v1/runs/run-{uuid4()}/stream", json={})
    odd = http.post(
        f"/v1/runs/{foreground}/stream", json={}, headers={"last-event-id": "message-1"}
    )

    assert refused.status_code == 400
    assert "background" in refused.json()["detail"]
    assert unknown.status_code == 404
    assert odd.status_code in (400, 422)
    background = stream(http, agent.id, "Hello", background=True)[0].data["run_id"]
    odd = http.post(
        f"/v1/runs/{background}/stream", json={}, headers={"last-event-id": "message-1"}
    )
    assert odd.status_code == 422
    assert "Last-Event-ID" in odd.json()["detail"]


@RESUME
def test_the_sdk_resumes_in_the_middle_of_a_step(letta: Letta, new_agent: NewAgent) -> None:
    agent = new_agent()
    read: list[Any] = []
    with letta.agents.messages.stream(
        agent.id, messages=says(f"DRIP:150 SAY:{TEXT}"), stream_tokens=True, background=True
    ) as events:
        for event in events:
            read.append(event.model_dump(mode="json"))
            if event.message_type == "assistant_message":
                break
    run_id = read[0]["run_id"]
    cuts = 0
    while read[-1]["message_type"] == "assistant_message" and cuts < 100:
        cuts += 1
        resumed = letta.runs.messages.stream(run_id, starting_after=read[-1]["seq_id"])
        for n, event in enumerate(resumed):
            read.append(event.model_dump(mode="json"))  # type: ignore[attr-defined]
            if n == 2 and read[-1]["message_type"] == "assistant_message":
                break
        resumed.response.close()

    assert cuts > 3
    assert [*texts(read).values()] == [TEXT]
    numbers = [chunk["seq_id"] for chunk in read if chunk.get("seq_id")]
    assert numbers == sorted(set(numbers)) == [*range(1, len(numbers) + 1)]


@STREAM
def test_the_same_otids_attach_to_the_run_that_is_there(
    http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    body = {
        "messages": says(f"SAY:{TEXT}", otid=str(uuid4())),
        "background": True,
        "stream_tokens": True,
    }
    path = f"/v1/agents/{agent.id}/messages"

    first = lines_of(http.post(f"{path}/stream", json=body).text)
    second = lines_of(http.post(f"{path}/stream", json=body).text)
    third = http.post(f"{path}/stream", json=body, headers={"last-event-id": "3"})

    assert second[1:] == first[1:]
    assert second[0].data["run_id"] == first[0].data["run_id"]
    assert lines_of(third.text) == first[3:]
    assert [message["message_type"] for message in history(http, agent.id)].count(
        "user_message"
    ) == 1


@STREAM
def test_the_number_of_another_stream_hides_nothing_of_a_new_one(
    http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    path = f"/v1/agents/{agent.id}/messages/stream"

    answer = http.post(path, json={"messages": says("Hello")}, headers={"last-event-id": "7"})

    assert kinds(without_keepalives(lines_of(answer.text)))[:2] == ["ping", "assistant_message"]


@pytest.mark.operation("POST /v1/agents/{agent_id}/messages/async")
def test_an_async_message_answers_with_its_run(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()

    run = letta.agents.messages.create_async(agent.id, messages=says(f"SLOW:200 SAY:{TEXT}"))

    assert run.status in ("created", "running")
    assert run.background
    assert run.agent_id == agent.id
    assert run.metadata is not None
    assert run.metadata["run_type"] == "send_message_async"
    told = resumed(http, run.id)
    assert [*texts([line.data for line in told[:-1]]).values()] == [TEXT]
    ended = letta.runs.retrieve(run.id)
    assert (ended.status, ended.stop_reason) == ("completed", "end_turn")
    assert history(http, agent.id)[-1]["content"] == TEXT
