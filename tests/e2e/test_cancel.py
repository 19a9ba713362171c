"""Runs that are cancelled: at once, wherever they stand, and the conversation goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import httpx
import pytest
from letta_client import ConflictError, Letta

from tests.e2e.asking import CANCEL, HELLO, NOBODY, Line, kinds, line_of, says, stream
from tests.e2e.conftest import NewAgent


class Following(threading.Thread):
    """A client that reads a stream to its end, and says when the first event of a kind is there."""

    def __init__(self, http: httpx.Client, agent_id: str, text: str, kind: str) -> None:
        super().__init__()
        self.http, self.agent_id, self.text, self.kind = http, agent_id, text, kind
        self.seen = threading.Event()
        self.lines: list[Line] = []

    def run(self) -> None:
        body = {"messages": says(self.text), "stream_tokens": True}
        path = f"/v1/agents/{self.agent_id}/messages/stream"
        with self.http.stream("POST", path, json=body) as response:
            chunk: list[str] = []
            for line in response.iter_lines():
                if line:
                    chunk.append(line)
                    continue
                self.lines.append(line_of("\n".join(chunk)))
                chunk = []
                if self.kind in kinds(self.lines[-1:]):
                    self.seen.set()

    @property
    def run_id(self) -> str:
        return str(self.lines[0].data["run_id"])


Follow = Callable[[str, str, str], Following]


@pytest.fixture
def follow(http: httpx.Client) -> Follow:
    def follow(agent_id: str, text: str, kind: str) -> Following:
        following = Following(http, agent_id, text, kind)
        following.start()
        assert following.seen.wait(20), kinds(following.lines)
        return following

    return follow


@CANCEL
@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ("SLOW:20000", "ping"),
        (f"DRIP:300 SAY:{'A long answer. ' * 40}", "assistant_message"),
        ('DRIP:500 CALL:memory_insert:{"label":"human","new_string":"x"}', "tool_call_message"),
    ],
    ids=["before it answers", "in mid-sentence", "in the middle of a call"],
)
def test_a_run_is_cancelled_while_the_model_answers(
    letta: Letta, follow: Follow, new_agent: NewAgent, script: str, kind: str
) -> None:
    agent = new_agent()
    following = follow(agent.id, script, kind)

    outcome: Any = letta.agents.messages.cancel(agent.id)
    following.join(10)

    assert not following.is_alive(), "the stream ends at once"
    assert outcome == {following.run_id: "cancelled"}
    assert kinds(following.lines)[-2:] == ["stop_reason", "[DONE]"]
    assert following.lines[-2].data["stop_reason"] == "cancelled"
    run = letta.runs.retrieve(following.run_id)
    assert (run.status, run.stop_reason) == ("cancelled", "cancelled")
    answer = letta.agents.messages.create(agent.id, messages=says("Hello"))
    assert answer.messages[0].content == HELLO  # type: ignore[union-attr]
    history = [message.message_type for message in letta.agents.messages.list(agent.id)]
    assert history == ["system_message", "user_message", "user_message", "assistant_message"]


@CANCEL
def test_what_was_done_before_stays_and_runs_that_wait_go_on(
    letta: Letta, http: httpx.Client, follow: Follow, new_agent: NewAgent
) -> None:
    agent = new_agent()
    call = 'CALL:memory_insert:{"label":"human","new_string":"Likes tea"}'
    following = follow(agent.id, f"{call} SLOW:20000", "tool_return_message")
    waiting = letta.agents.messages.create_async(agent.id, messages=says("Wait for it"))
    unwanted = letta.agents.messages.create_async(agent.id, messages=says("Never mind"))

    outcome: Any = letta.agents.messages.cancel(
        agent.id, run_ids=[following.run_id, unwanted.id, f"run-{NOBODY}"]
    )
    following.join(10)

    assert outcome == {
        following.run_id: "cancelled",
        unwanted.id: "cancelled",
        f"run-{NOBODY}": "failed",
    }
    http.post(f"/v1/runs/{waiting.id}/stream", json={})
    assert letta.runs.retrieve(waiting.id).status == "completed"
    assert letta.runs.retrieve(unwanted.id).status == "cancelled"
    assert letta.agents.blocks.retrieve("human", agent_id=agent.id).value == "Name: Ada\nLikes tea"
    said = [message.content for message in letta.agents.messages.list(agent.id)
            if message.message_type == "user_message"]  # fmt: skip
    assert said[1:] == ["Wait for it"]
    assert "Never mind" not in str(said)


@CANCEL
def test_a_request_that_waits_for_a_cancelled_run_gets_what_there_is(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    answers: list[httpx.Response] = []
    body = {"messages": says("SLOW:20000", otid=str(uuid4()))}

    def ask() -> None:
        answers.append(http.post(f"/v1/agents/{agent.id}/messages", json=body))

    asking = threading.Thread(target=ask)
    asking.start()
    while not letta.runs.list(agent_id=agent.id, active=True).items:
        pass
    letta.agents.messages.cancel(agent.id)
    asking.join(10)

    [answer] = answers
    assert answer.status_code == 200
    assert answer.json()["messages"] == []
    assert answer.json()["stop_reason"]["stop_reason"] == "cancelled"


@CANCEL
def test_where_nothing_is_active_there_is_nothing_to_cancel(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    ended = stream(http, agent.id, "Hello")[0].data["run_id"]

    for body in ({}, {"run_ids": [ended]}, {"run_ids": []}):
        refused = http.post(f"/v1/agents/{agent.id}/messages/cancel", json=body)
        assert refused.status_code == 409
        assert refused.json() == {"detail": "No active runs to cancel"}
        assert refused.headers["x-should-retry"] == "false"
    with pytest.raises(ConflictError):
        letta.agents.messages.cancel(agent.id)
    nobody = http.post(f"/v1/agents/agent-{NOBODY}/messages/cancel", json={})
    assert nobody.status_code == 404
    assert letta.runs.retrieve(ended).status == "completed"
