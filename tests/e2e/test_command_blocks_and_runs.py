"""`heeler blocks` and `heeler runs` against a server: each effect is read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from letta_client import Letta

from cli.exit_codes import ExitCode
from tests.e2e.asking import NOBODY, call_tool, says, unique
from tests.e2e.conftest import NewAgent
from tests.heeler_command import HeelerCommand


@pytest.fixture
def agent(new_agent: NewAgent) -> Any:
    return new_agent()


def test_a_block_is_made_shared_changed_and_deleted(
    heeler_command: HeelerCommand,
    letta: Letta,
    http: httpx.Client,
    new_agent: NewAgent,
    tmp_path: Path,
) -> None:
    agents = [new_agent() for _ in range(2)]
    file = tmp_path / "plan.md"
    file.write_text("First\nSecond\n")
    label = unique("plan")
    block_id = heeler_command(
        *("blocks", "create", label, f"@{file}", "--description", "What we do", "--limit", "500"),
        *("--agent", agents[0].name),
    ).out.strip()
    block = letta.blocks.retrieve(block_id)
    assert (block.label, block.value, block.limit) == (label, "First\nSecond\n", 500)
    assert (block.description, block.read_only) == ("What we do", False)
    heeler_command("blocks", "attach", label, agents[1].name)
    assert {each.id for each in letta.blocks.agents.list(block_id).items} == {
        agent.id for agent in agents
    }

    heeler_command("blocks", "set", label, "-", "--agent", agents[1].id, input="Third")
    assert letta.blocks.retrieve(block_id).value == "Third"
    heeler_command("blocks", "set", block_id, "--description", "Done", "--limit", "50")
    block = letta.blocks.retrieve(block_id)
    assert (block.value, block.description, block.limit) == ("Third", "Done", 50)
    ended = heeler_command.run("blocks", "set", block_id, "x" * 51)
    assert ended.code == ExitCode.REFUSED
    assert letta.blocks.retrieve(block_id).value == "Third"
    assert heeler_command.run("blocks", "set", block_id).code == ExitCode.USAGE

    heeler_command("blocks", "detach", label, agents[1].name)
    assert [each.id for each in letta.blocks.agents.list(block_id).items] == [agents[0].id]
    assert heeler_command.run("blocks", "delete", block_id).code == ExitCode.USAGE
    heeler_command("blocks", "delete", block_id, "--yes")
    assert http.get(f"/v1/blocks/{block_id}").status_code == 404
    assert heeler_command.run("blocks", "get", block_id).code == ExitCode.NOT_FOUND


def test_blocks_are_listed_and_found_by_their_label_in_an_agent(
    heeler_command: HeelerCommand, new_agent: NewAgent
) -> None:
    agents = [new_agent() for _ in range(2)]
    listed = heeler_command.json("blocks", "list", "--agent", agents[0].name)
    assert {block["label"] for block in listed} == {"human", "persona"}
    assert heeler_command("blocks", "get", "human", "-a", agents[0].name, "-q").out == "Name: Ada\n"
    assert "Name: Ada" in heeler_command("blocks", "list", "-a", agents[0].id).out
    ended = heeler_command.run("blocks", "get", "human")
    assert ended.code == ExitCode.REFUSED, "many blocks have that label"
    ended = heeler_command.run("blocks", "get", "humna", "--agent", agents[0].name)
    assert ended.code == ExitCode.NOT_FOUND
    assert "human" in ended.err
    label = unique("only")
    block_id = heeler_command("blocks", "create", label, "Text").out.strip()
    assert heeler_command.json("blocks", "get", label)["id"] == block_id
    assert [block["id"] for block in heeler_command.json("blocks", "list", "--label", label)] == [
        block_id
    ]
    heeler_command("blocks", "delete", label, "--yes")


def test_the_history_of_a_block_says_who_changed_what_and_is_undone(
    heeler_command: HeelerCommand, letta: Letta, agent: Any
) -> None:
    of_agent = ("human", "--agent", agent.name)
    call_tool(letta, agent.id, "memory_insert", label="human", new_string="Likes tea")
    heeler_command("blocks", "set", "human", "Wrong", "--agent", agent.name)
    versions = heeler_command.json("blocks", "history", *of_agent)
    assert [(version["version"], version["kind"]) for version in versions] == [
        (3, "changed"),
        (2, "changed"),
        (1, "created"),
    ]
    assert (versions[1]["author_id"], versions[1]["tool_name"]) == (agent.id, "memory_insert")
    assert versions[0]["author_id"].startswith("user-")
    assert "memory_insert" in heeler_command("blocks", "history", *of_agent).out
    then = heeler_command("blocks", "get", *of_agent, "--version", "2", "--quiet")
    assert then.out == "Name: Ada\nLikes tea\n"

    assert "+Wrong" in heeler_command("blocks", "diff", *of_agent).out.splitlines()
    between = heeler_command("blocks", "diff", "human", "1", "2", "-a", agent.id).out.splitlines()
    assert between[-2:] == [" Name: Ada", "+Likes tea"]

    ended = heeler_command.run("blocks", "undo", *of_agent, "--if-version", "2")
    assert ended.code == ExitCode.REFUSED
    heeler_command("blocks", "undo", *of_agent)
    assert letta.agents.blocks.retrieve("human", agent_id=agent.id).value == "Name: Ada\nLikes tea"
    heeler_command("blocks", "undo", *of_agent, "--to", "1")
    assert letta.agents.blocks.retrieve("human", agent_id=agent.id).value == "Name: Ada"


def test_runs_are_listed_and_shown(heeler_command: HeelerCommand, letta: Letta, agent: Any) -> None:
    letta.agents.messages.create(agent.id, messages=says("SAY:Good day"))
    call_tool(letta, agent.id, "memory_insert", label="human", new_string="Likes tea")
    runs = heeler_command.json("runs", "list", "--agent", agent.name)
    assert [run["id"] for run in runs] == [run.id for run in letta.runs.list(agent_id=agent.id)]
    assert heeler_command.json("runs", "list", "-a", agent.id, "--status", "failed") == []
    assert heeler_command.json("runs", "list", "-a", agent.id, "--active") == []
    assert runs[0]["id"] in heeler_command("runs", "list", "-a", agent.id, "--limit", "1").out

    shown = heeler_command("runs", "show", runs[1]["id"])
    assert shown.out.splitlines()[-2:] == ["> SAY:Good day", "Good day"]
    assert "end_turn" in shown.out
    document = heeler_command.json("runs", "show", runs[0]["id"])
    assert document["id"] == runs[0]["id"]
    assert len(document["steps"]) == 2
    assert document["messages"][0]["message_type"] == "user_message"
    assert document["usage"]["prompt_tokens"] > 0
    spans = heeler_command.json("runs", "show", runs[0]["id"], "--trace")
    assert "agent_step" in {span["SpanName"] for span in spans}
    assert "agent_step" in heeler_command("runs", "show", runs[0]["id"], "--trace").out
    assert heeler_command.run("runs", "show", f"run-{NOBODY}").code == ExitCode.NOT_FOUND
    assert heeler_command.run("runs", "show", "../agents").code != ExitCode.OK


def test_a_run_is_replayed_and_compared(
    heeler_command: HeelerCommand, letta: Letta, agent: Any
) -> None:
    answer = letta.agents.messages.create(agent.id, messages=says("SAY:Good day"))
    run_id = str(answer.messages[0].run_id)
    count = len(letta.agents.messages.list(agent.id).items)
    report = heeler_command.json("runs", "replay", run_id, "--model", "openai/gpt-4.1")
    assert (report["status"], report["same"], report["model"]) == (
        "completed", True, "openai/gpt-4.1"
    )  # fmt: skip
    [kept] = letta.get(f"/v1/runs/{run_id}/replays", cast_to=list[Any])
    assert kept["id"] == report["id"]
    shown = heeler_command("runs", "replay", run_id)
    assert "same" in shown.out
    assert shown.out.count("Good day") == 2
    assert len(letta.agents.messages.list(agent.id).items) == count
    assert heeler_command.run("runs", "replay", run_id, "--from-step", "9").code == ExitCode.REFUSED
