"""Letta Code as npm has it, two releases of it, without a screen: it runs its own tools."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from letta_client import Letta

from tests.e2e.asking import MODEL
from tests.e2e.node import INSTALL_SECONDS_MAX, LETTA_CODE, Node, installed
from tests.servers import HeelerInstance, wait_until

RELEASES = ["0.19.5", "0.25.9"]
TURN_SECONDS_MAX = 90
SHELL = 'CALL:ShellCommand:{{"command": "{}"}}'

pytestmark = pytest.mark.timeout(INSTALL_SECONDS_MAX + 3 * TURN_SECONDS_MAX)


@dataclass(frozen=True)
class LettaCode:
    """One release of it, at home in a folder of its own."""

    node: Node
    release: str
    base_url: str
    home: Path

    def begin(self, prompt: str, *options: str) -> subprocess.Popen[str]:
        """A turn without a screen; what it runs, it runs unasked."""
        program = LETTA_CODE / "node_modules" / f"letta-code-{self.release}" / "letta.js"
        return subprocess.Popen(
            [
                *(self.node.node, str(program), *options, "-p", prompt),
                *("--output-format", "json", "--yolo"),
            ],
            cwd=self.work,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def work(self) -> Path:
        """The folder that it works in."""
        folder = self.home / "work"
        folder.mkdir(exist_ok=True)
        return folder

    @property
    def environment(self) -> dict[str, str]:
        """Nothing of this machine's but the programs."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        return {
            **kept,
            "HOME": str(self.home),
            "LETTA_BASE_URL": self.base_url,
            "LETTA_API_KEY": "any",
            "DISABLE_AUTOUPDATER": "1",
            "LETTA_CODE_TELEM": "0",
        }

    def turn(self, prompt: str, *options: str) -> dict[str, Any]:
        """What a turn came to, as Letta Code says it in JSON."""
        return ended(self.begin(prompt, *options))


def ended(turn: subprocess.Popen[str]) -> dict[str, Any]:
    """What a turn came to."""
    out, problems = turn.communicate(timeout=TURN_SECONDS_MAX)
    assert turn.returncode == 0, f"{out}\n{problems}"
    result: dict[str, Any] = json.loads(out[out.index("{") :])
    assert result["subtype"] == "success", result
    assert result["is_error"] is False
    return result


Start = Callable[[str], LettaCode]


@pytest.fixture
def start(heeler: HeelerInstance, tmp_path: Path) -> Start:
    """A release of Letta Code that has not been here before."""
    node = installed(LETTA_CODE)
    return lambda release: LettaCode(node, release, heeler.base_url, tmp_path)


def kinds(letta: Letta, agent_id: str, conversation_id: str) -> list[str]:
    """The types of the messages of a conversation, oldest first."""
    page = letta.conversations.messages.list(conversation_id, order="asc", limit=100)
    return [str(message.message_type) for message in page.items]


@pytest.mark.parametrize("release", RELEASES)
def test_a_new_agent_has_its_tool_run_by_letta_code_and_is_resumed(
    letta: Letta, start: Start, release: str
) -> None:
    """DX-11."""
    code = start(release)
    command = SHELL.format("echo made by the client > made.txt; cat made.txt")
    first = code.turn(f"{command} SAY:It is made.", "--new", "--model", MODEL)
    assert first["result"] == "It is made."
    assert (code.work / "made.txt").read_text() == "made by the client\n"
    agent_id, conversation_id = first["agent_id"], first["conversation_id"]
    assert letta.agents.retrieve(agent_id).id == agent_id

    page = letta.conversations.messages.list(conversation_id, order="asc", limit=100)
    messages = {str(message.message_type): message for message in page.items}
    asked: Any = messages["approval_request_message"]
    answered: Any = messages["approval_response_message"]
    assert asked.tool_calls[0].name == "ShellCommand"
    assert answered.approvals[0].tool_call_id == asked.tool_calls[0].tool_call_id
    assert "made by the client" in str(answered.approvals[0].tool_return)
    said: Any = messages["assistant_message"]
    assert said.content == "It is made."

    again = code.turn("SAY:Still here.", "--conversation", conversation_id)
    assert again["result"] == "Still here."
    assert (again["agent_id"], again["conversation_id"]) == (agent_id, conversation_id)
    assert kinds(letta, agent_id, conversation_id).count("assistant_message") == 2
    for run in letta.runs.list(agent_id=agent_id).items:
        assert run.status == "completed", run


@pytest.mark.parametrize("release", RELEASES)
def test_an_api_that_is_killed_in_mid_stream_costs_no_turn(
    heeler: HeelerInstance, letta: Letta, start: Start, release: str
) -> None:
    """In one turn without a screen Letta Code does not ask for the rest of a stream that broke: it
    ends with an error, and 0.19.5 was seen to send its message once more, as a new one. The turn
    goes on without it, whole, and the next one knows of it."""
    code = start(release)
    first = code.turn("SAY:Ready.", "--new", "--model", MODEL)
    agent_id, conversation_id = first["agent_id"], first["conversation_id"]
    text = f"The long answer of {release}:" + " word" * 60
    turn = code.begin(f"DRIP:100 SAY:{text}", "--conversation", conversation_id)
    wait_until("the turn runs", lambda: running(letta, agent_id), TURN_SECONDS_MAX)
    heeler.wait_restarted("api", heeler.kill9("api"))
    turn.communicate(timeout=TURN_SECONDS_MAX)
    heeler.wait_healthy(TURN_SECONDS_MAX)
    wait_until("the turn ends", lambda: not running(letta, agent_id), TURN_SECONDS_MAX)
    again = code.turn("SAY:Still here.", "--conversation", conversation_id)
    assert again["result"] == "Still here."
    page = letta.conversations.messages.list(conversation_id, order="asc", limit=100)
    said: list[Any] = [
        message for message in page.items if message.message_type == "assistant_message"
    ]
    contents = [message.content for message in said]
    assert (contents[0], contents[-1]) == ("Ready.", "Still here.")
    assert contents[1:-1] in ([text], [text] * 2)
    asked: list[Any] = [message for message in page.items if message.message_type == "user_message"]
    sent = [message.otid for message in asked if text in str(message.content)]
    assert len(sent) == len(contents) - 2, "each message has one answer"
    assert len({*sent}) == len(sent), "the same message was not answered twice"
    for run in letta.runs.list(agent_id=agent_id).items:
        assert run.status == "completed", run


def running(letta: Letta, agent_id: str) -> bool:
    """Whether a run of the agent is being answered."""
    return any(run.status == "running" for run in letta.runs.list(agent_id=agent_id).items)
