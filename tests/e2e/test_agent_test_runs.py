"""Tests of agents under pytest, and what becomes of their agents."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from cli.agent_tests.cases import Mode, Result
from cli.agent_tests.fresh_agents import LEFT_BEHIND_AGE, TAG, FreshAgents, sweep
from cli.agent_tests.runner import run_all
from cli.agent_tests.scenario_files import read
from cli.server import Address, Server
from deploy.embedded.settings import CHECKOUT
from tests.agent_scenarios import AGENT, SCENARIO, agent_folder, agents_left
from tests.e2e.asking import MODEL
from tests.e2e.conftest import NewAgent
from tests.heeler_command import HeelerCommand
from tests.servers import HeelerInstance

EXAMPLE = CHECKOUT / "examples" / "chatbot" / "tests" / "test_chatbot.py"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An agent with one scenario, which passes."""
    return agent_folder(tmp_path)


IN_PYTHON = """
import pytest

NOTE = {"label": "human", "new_string": "Tea"}
REPLIES = [
    {"tool_calls": [{"name": "memory_insert", "arguments": NOTE}]},
    {"text": "Noted."},
]


@pytest.mark.agent("agent.toml", replies=REPLIES)
def test_it_remembers(agent_under_test):
    answer = agent_under_test.say("I like tea.")
    assert answer.text == "Noted."
    assert [call.name for call in answer.tool_calls] == ["memory_insert"]
    assert agent_under_test.memory == {"human": "Tea"}
    agent_under_test.expect(contains="Noted", memory={"human": {"equals": "Tea"}})


@pytest.mark.agent("agent.toml", replies=REPLIES, memory={"human": "Ada"})
def test_what_is_wrong_is_shown(agent_under_test):
    assert agent_under_test.say("I like tea.").text == "Forgotten."


@pytest.mark.agent("agent.toml", replies=REPLIES)
def test_an_expectation_is_wrong(agent_under_test):
    agent_under_test.say("I like tea.")
    agent_under_test.expect(no_tool_calls=True)
"""


def test_scenarios_and_tests_in_python_run_under_pytest(
    heeler: HeelerInstance, http: httpx.Client, folder: Path
) -> None:
    (folder / "test_agent.py").write_text(IN_PYTHON)
    (folder / "wrong.toml").write_text(SCENARIO.replace('"Noted"', '"Forgotten"'))
    (folder / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "cli.agent_tests.pytest_plugin"),
            *("-p", "no:cacheprovider", "--heeler-url", heeler.base_url),
            *(str(folder), str(EXAMPLE)),
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "3 failed, 3 passed" in done.stdout, done
    for line in (
        "AssertionError: assert 'Noted.' == 'Forgotten.'",
        "Transcript of the agent",
        'call     memory_insert(label="human", new_string="Tea")',
        "Memory of the agent",
        "+ Tea",
        "no_tool_calls: the agent called memory_insert",
        "wrong.toml:16: turns[0].expect.contains[0]: the agent said nothing that contains",
    ):
        assert line in done.stdout
    assert agents_left(http) == []


def test_an_interruption_ends_the_runs_and_deletes_the_agents(
    heeler: HeelerInstance, http: httpx.Client, folder: Path
) -> None:
    (folder / "agent.toml").write_text(
        AGENT.replace("[[memory]]", f'model = "{MODEL}"\n[[memory]]')
    )
    scripted = SCENARIO.index("[[model]]")
    (folder / "slow.toml").write_text(f"{SCENARIO[:scripted]}[[turns]]\nmessage = 'HANG'\n")
    files = [read(folder / "keeps.toml"), read(folder / "slow.toml")]

    def interrupt(_: Result) -> None:
        raise KeyboardInterrupt

    server = Server(Address(heeler.base_url, None, "the test"))
    with FreshAgents(server) as agents:
        with pytest.raises(KeyboardInterrupt):
            run_all(files, agents, 2, Mode(record=True), after_each=interrupt)
        assert agents_left(http) == []


def test_an_agent_that_a_killed_test_has_left_is_deleted_by_a_later_one(
    heeler: HeelerInstance, new_agent: NewAgent, http: httpx.Client
) -> None:
    left, other = new_agent(tags=[TAG]), new_agent(tags=["heeler"])
    server = Server(Address(heeler.base_url, None, "the test"))
    assert left.created_at
    assert sweep(server, left.created_at + LEFT_BEHIND_AGE - timedelta(seconds=1)) == 0
    assert sweep(server, left.created_at + LEFT_BEHIND_AGE) == 1
    assert http.get(f"/v1/agents/{left.id}").status_code == 404
    assert http.get(f"/v1/agents/{other.id}").status_code == 200


def test_kept_agents_stay_with_their_runs(
    heeler_command: HeelerCommand, http: httpx.Client, folder: Path
) -> None:
    [case] = heeler_command.json("test", str(folder), "--keep")["cases"]
    run = http.get(f"/v1/runs/{case['run_ids'][0]}").json()
    assert run["status"] == "completed"
    agent = http.get(f"/v1/agents/{run['agent_id']}", params={"include": "agent.tags"}).json()
    assert agent["tags"] == ["heeler-test-kept"]
    http.delete(f"/v1/agents/{agent['id']}")
