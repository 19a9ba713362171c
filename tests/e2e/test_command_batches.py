"""`heeler batches` against a server: each effect is read back."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from cli.exit_codes import ExitCode
from tests.e2e.asking import HELLO, unique
from tests.e2e.conftest import NewAgent
from tests.heeler_command import HeelerCommand
from tests.scripted_model import ScriptedModelProcess


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "questions.jsonl"


def test_each_line_of_a_file_is_answered_by_one_agent(
    heeler_command: HeelerCommand, new_agent: NewAgent, file: Path
) -> None:
    agent = new_agent(name=unique("ada"))
    file.write_text('"Hello"\n\n{"input": "SAY two", "max_steps": 3}\n')
    [batch] = heeler_command.json("batches", "create", str(file), "--agent", agent.name, "--wait")
    assert (batch["status"], batch["counts"]["completed"]) == ("completed", 2)
    shown = heeler_command("batches", "get", batch["id"]).out
    assert f"agent         {agent.id}" in shown
    items = heeler_command.json("batches", "results", batch["id"])
    assert [item["number"] for item in items] == [0, 1]
    assert HELLO in heeler_command("batches", "results", batch["id"]).out
    listed = heeler_command.json("batches", "list", "--agent", agent.name)
    assert [entry["id"] for entry in listed] == [batch["id"]]


def test_lines_that_name_their_agents_are_answered_by_them(
    heeler_command: HeelerCommand, new_agent: NewAgent
) -> None:
    agents = [new_agent(name=unique(name)) for name in ("ada", "bob")]
    lines = [json.dumps({"agent": agent.name, "input": "Hello"}) for agent in agents]
    [batch] = heeler_command.json("batches", "create", "-", "--wait", input="\n".join(lines))
    assert batch["counts"]["completed"] == 2
    messages = heeler_command.json("batches", "results", batch["id"])
    answered = {message["agent_id"] for message in messages if message["role"] == "assistant"}
    assert answered == {agent.id for agent in agents}
    assert HELLO in heeler_command("batches", "results", batch["id"]).out


def test_a_file_of_more_lines_than_a_batch_has_becomes_several(
    heeler_command: HeelerCommand, new_agent: NewAgent, file: Path
) -> None:
    agent = new_agent()
    file.write_text('"Hello"\n' * 101)
    batches = heeler_command.json("batches", "create", str(file), "--agent", agent.id)
    assert [batch["counts"]["total"] for batch in batches] == [100, 1]
    for batch in batches:
        heeler_command.run("batches", "cancel", batch["id"])
    [ended] = heeler_command.json("batches", "wait", batches[0]["id"])
    assert ended["status"] in ("cancelled", "completed")


async def test_a_batch_is_cancelled(
    heeler_command: HeelerCommand, new_agent: NewAgent, model: ScriptedModelProcess
) -> None:
    agent, word = new_agent(), unique("hang")
    words, line = ("batches", "create", "-", "--agent", agent.id), json.dumps(f"HANG {word}")
    [batch] = heeler_command.json(*words, input=line)
    await model.wait_for_asked(f"HANG {word}")
    assert batch["id"] in heeler_command("batches", "list").out
    heeler_command("batches", "cancel", batch["id"])
    [ended] = heeler_command.json("batches", "wait", batch["id"])
    assert (ended["status"], ended["counts"]["cancelled"]) == ("cancelled", 1)


def test_a_wrong_line_is_named_and_nothing_is_sent(
    heeler_command: HeelerCommand, new_agent: NewAgent, file: Path, http: httpx.Client
) -> None:
    agent = new_agent()
    for text, told in (
        ('"Hello"\n{"input": \n', ":2: no JSON"),
        ('"Hello"\n7\n', ":2: an item is a text or an object"),
        ("\n", "has no items"),
    ):
        file.write_text(text)
        ended = heeler_command.run("batches", "create", str(file), "--agent", agent.id)
        assert (ended.code, ended.out) == (ExitCode.REFUSED, "")
        assert told in ended.err
    assert http.get(f"/v1/agents/{agent.id}/messages/batch").json() == []
    file.write_text('"Hello"\n')
    unnamed = heeler_command.run("batches", "create", str(file))
    assert (unnamed.code, "names no `agent`" in unnamed.err) == (ExitCode.REFUSED, True)
