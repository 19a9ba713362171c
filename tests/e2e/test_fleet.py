"""Agents as files under version control: create, apply, diff, export, and reload while they run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from letta_client import Letta

from cli.fleet.command import compare_files, new_run, watch_files
from cli.fleet_options import FleetOptions
from tests.e2e.asking import MODEL, says, unique
from tests.heeler_command import HeelerCommand
from tests.mcp_servers.asking import PROGRAM
from tests.servers import HeelerInstance
from tests.waiting import wait_for

AGENTS = 40
AGENT = """
name = "{name}"
description = "One of many"
system_prompt = "You are {name}."
model = "{model}"
[[memory]]
label = "human"
value = "unknown"
"""
TOOL = '''
def {name}(sides: int) -> str:
    """Roll a die.

    Args:
        sides (int): how many sides it has
    """
    return "1"
'''


def write_agent(folder: Path, name: str, text: str = AGENT, **fields: str) -> Path:
    """Write the file of an agent."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.toml"
    file.write_text(text.format(name=name, model=MODEL, **fields))
    return file


def agent_named(http: httpx.Client, name: str) -> Any:
    """The only agent of that name."""
    (agent,) = http.get("/v1/agents/", params={"name": name, "include": "agent.tags"}).json()
    return agent


def report_of(http: httpx.Client, agent_id: str) -> Any:
    """What the server knows of the file of an agent."""
    answer = http.get(f"/v1/agents/{agent_id}/configuration")
    assert answer.status_code == 200, answer.text
    return answer.json()


def topics_of(http: httpx.Client, agent_id: str) -> str:
    """The events of an agent, as a text."""
    return http.get(f"/v1/agents/{agent_id}/events", params={"limit": 100}).text


def begin(*arguments: str) -> subprocess.Popen[bytes]:
    """Start the command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "cli", *arguments],
        env=dict(os.environ),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def test_a_file_becomes_an_agent_by_one_command(
    heeler_command: HeelerCommand, letta: Letta, tmp_path: Path
) -> None:
    name = unique("deployed")
    file = write_agent(tmp_path / name, name)
    assert f"created {name}" in heeler_command("create", "--config", str(file)).out
    assert name in heeler_command("agents", "list").out
    (agent,) = letta.agents.list(name=name, include=["agent.blocks"]).items
    assert agent.system == f"You are {name}."
    assert [(block.label, block.value) for block in agent.blocks] == [("human", "unknown")]
    answer = letta.agents.messages.create(agent.id, messages=says("SYSTEM?"))
    assert f"You are {name}." in str(answer.messages[-1])
    again = heeler_command.run("create", "--config", str(file))
    assert (again.code, "heeler apply" in again.err) == (4, True)
    assert len(letta.agents.list(name=name).items) == 1


EVERYTHING = """
name = "{name}"
description = "Has all that a file can say"
system_prompt = '''
You are {name}.
"Quotes", \\ and ünïcödé stay.
'''
model = "{model}"
embedding = "openai/text-embedding-3-small"
context_window = 20000
tags = ["b", "a"]
timezone = "Europe/Berlin"
tools = ["web_search", "archival_memory_search"]
capabilities = ["poetry", {{ name = "sums", description = "Adds", priority = 3 }}]

[model_settings]
temperature = 0.2
max_output_tokens = 1000

[compaction]
mode = "all"

[limits]
max_files_open = 3

[permissions]
capabilities = ["memory", "network", "code"]

[secrets]
TOKEN = "${{FLEET_TOKEN}}"

[metadata]
team = {{ name = "x", size = 3 }}

[[memory]]
label = "human"
value = '''
First line
second line
'''
limit = 500
description = "What it knows of people"

[[memory]]
label = "rules"
value_file = "rules.md"
read_only = true

[[memory]]
label = "{house}"
value = "Rules of the house"
shared = true

[[tool]]
file = "tools/{tool}.py"
requires_approval = true

[[tool_rules]]
type = "run_first"
tool_name = "web_search"

[[schedules]]
name = "morning"
cron = "0 9 * * mon"
message = "Good morning"

[[schedules]]
name = "summary"
every = "1d"
action = {{ type = "summarize", summary_length = "short" }}

[[groups]]
name = "{group}"
manager_type = "round_robin"
description = "A pair"

[[mcp_servers]]
name = "{mcp}"
command = "{program}"
args = {arguments}
env = {{ KEY = "${{FLEET_TOKEN}}" }}
"""


def test_an_agent_with_everything_is_exported_and_applied_without_a_change(
    heeler_command: HeelerCommand,
    http: httpx.Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FLEET_TOKEN", "a-secret")
    folder, name, tool = tmp_path / unique("all"), unique("all"), unique("roll").replace("-", "_")
    words = {
        **{"house": unique("house"), "group": unique("group"), "mcp": unique("mcp"), "tool": tool},
        **{"program": PROGRAM[0], "arguments": json.dumps(PROGRAM[1:])},
    }
    write_agent(folder, name, EVERYTHING, **words)
    other = AGENT + '[[groups]]\nname = "{group}"\n'
    write_agent(folder, unique("other"), other, **words)
    (folder / "tools").mkdir()
    (folder / "tools" / f"{tool}.py").write_text(TOOL.format(name=tool))
    (folder / "rules.md").write_text("Be kind.\n")
    assert heeler_command.json("apply", "-f", str(folder))["summary"]["created"] == 2
    assert heeler_command.json("apply", "-f", str(folder))["summary"]["unchanged"] == 2
    ended = heeler_command("diff", "-f", str(folder))
    assert "to create 0, to change 0, unchanged 2" in ended.out

    agent = agent_named(http, name)
    assert agent["system"] == f'You are {name}.\n"Quotes", \\ and ünïcödé stay.\n'
    assert (agent["timezone"], agent["tags"]) == ("Europe/Berlin", ["a", "b"])
    assert agent["metadata"]["team"] == {"name": "x", "size": 3}
    document = report_of(http, agent["id"])
    assert (document["applied"]["file"], document["rejected"]) == (f"{name}.toml", None)

    exported = tmp_path / "exported"
    heeler_command("export", name, "--to", str(exported))
    assert (exported / "tools" / f"{tool}.py").read_text() == TOOL.format(name=tool)
    text = (exported / f"{name}.toml").read_text()
    assert "a-secret" not in text
    monkeypatch.setenv("TOKEN", "a-secret")
    monkeypatch.setenv(f"{words['mcp'].replace('-', '_').upper()}_KEY", "a-secret")
    ended = heeler_command("diff", "-f", str(exported))
    assert "to create 0, to change 0, unchanged 1" in ended.out
    monkeypatch.setenv("TOKEN", "another-secret")
    ended = heeler_command.run("diff", "-f", str(exported), "--adopt", "--fleet", name)
    assert (ended.code, "(secret)" in ended.out) == (1, True)
    assert "secret'" not in ended.out


async def test_a_fleet_that_was_killed_half_way_ends_the_same(
    heeler_command: HeelerCommand, heeler: HeelerInstance, http: httpx.Client, tmp_path: Path
) -> None:
    word = unique("fleet")
    folder = tmp_path / word
    names = [f"{word}-{number}" for number in range(AGENTS)]
    for name in names:
        write_agent(folder, name)

    def there() -> list[Any]:
        query = {"query_text": word, "limit": 1000}
        found: list[Any] = http.get("/v1/agents/", params=query).json()
        return found

    arguments = ["apply", "-f", str(folder), "--fleet", word]
    killed = begin(*arguments)
    try:
        await wait_for("some agents", lambda: len(there()) >= 3)
    finally:
        killed.send_signal(signal.SIGKILL)
        killed.wait()

    def applying() -> Any:
        (fleet,) = [each for each in http.get("/v1/fleets").json() if each["key"] == word]
        return fleet["applying"]

    if applying():
        refused = heeler_command.run(*arguments)
        assert refused.code == 0 or "is being applied by" in refused.err
    await wait_for("the end, though nobody waits for it", lambda: not applying())
    done = heeler_command.json(*arguments)["summary"]
    assert (done["unchanged"], done["failed"]) == (AGENTS, 0)
    agents = {agent["name"]: agent for agent in there()}
    assert sorted(agents) == sorted(names)
    assert len(there()) == AGENTS, "none is there twice"
    for name in names[:8]:
        assert report_of(http, agents[name]["id"])["applied"]["file"] == f"{name}.toml"

    for name in names[:5]:
        write_agent(folder, name, AGENT.replace("You are", "You were"))
    summary = heeler_command(*arguments).out.splitlines()[-1]
    assert summary == f"created 0, changed 5, unchanged {AGENTS - 5}, failed 0"
    now = {agent["name"]: agent for agent in there()}
    changed = [name for name in names if now[name]["updated_at"] != agents[name]["updated_at"]]
    assert changed == names[:5], "only those were sent"
    for file in folder.glob("*.toml"):
        file.unlink()
    kept = write_agent(folder, names[0], AGENT.replace("You are", "You were"))
    refused = heeler_command.run(*arguments, "--prune", "--yes")
    assert (refused.code, f"--prune-max {AGENTS - 1}" in refused.err) == (4, True)
    arguments += ["--prune", "--prune-max", str(AGENTS)]
    assert heeler_command.run(*arguments).code == 2, "nobody can be asked"
    assert heeler_command.json(*arguments, "--yes")["summary"]["deleted"] == AGENTS - 1
    assert [agent["name"] for agent in there()] == [kept.stem]


async def test_a_saved_file_counts_for_the_next_run(
    heeler_command: HeelerCommand, http: httpx.Client, letta: Letta, tmp_path: Path
) -> None:
    name = unique("reloaded")
    folder = tmp_path / name
    write_agent(folder, name)
    run, fleet = new_run(FleetOptions(file=(folder,)))
    comparison = compare_files(run, fleet)
    run.apply(comparison)
    agent = agent_named(http, name)
    letta.agents.blocks.update("human", agent_id=agent["id"], value="Her cat is called Whiskers")
    stop = threading.Event()
    watching = threading.Thread(
        target=watch_files, args=(run, comparison), kwargs={"poll": False, "stop": stop}
    )
    watching.start()
    try:
        write_agent(folder, name, AGENT.replace("You are", "You were"))
        await wait_for("the new prompt", lambda: "were" in agent_named(http, name)["system"])
        answer = letta.agents.messages.create(agent["id"], messages=says("SYSTEM?"))
        assert f"You were {name}." in str(answer.messages[-1])
        assert "Whiskers" in str(answer.messages[-1]), "its memory stays"
        write_agent(folder, name, AGENT.replace("You are", "You will be") + "sistem = 1\n")
        report = await wait_for("the report", lambda: report_of(http, agent["id"])["rejected"])
        assert "sistem" in report["problems"][-1]["message"]
        assert report["problems"][-1]["line"] > 1
        answer = letta.agents.messages.create(agent["id"], messages=says("SYSTEM?"))
        assert f"You were {name}." in str(answer.messages[-1]), "the old agent answers"
        assert "configuration.rejected" in topics_of(http, agent["id"])
    finally:
        stop.set()
        watching.join()


WRONG = {
    "model": AGENT.replace("{model}", "openai/no-such-model"),
    "tool": AGENT.replace("[[memory]]", 'tools = ["no_such_tool"]\n[[memory]]'),
    "limit": AGENT + "limit = 3\n",
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_the_server_does_not_have_leaves_the_agent(
    heeler_command: HeelerCommand, http: httpx.Client, tmp_path: Path, kind: str
) -> None:
    name = unique("kept")
    folder = tmp_path / name
    write_agent(folder, name)
    heeler_command("apply", "-f", str(folder))
    before = agent_named(http, name)
    write_agent(folder, name, WRONG[kind].replace("You are", "You were"))
    write_agent(folder, unique("beside"))
    ended = heeler_command.run("apply", "-f", str(folder), "--json")
    assert (ended.code, ended.json["summary"]["created"]) == (4, 1), "the others are applied"
    assert agent_named(http, name) == before
    report = report_of(http, before["id"])["rejected"]
    assert report["problems"][-1]["message"]
