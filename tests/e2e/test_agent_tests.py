"""`heeler test`: scenarios on fresh agents, and what a wrong expectation says."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import httpx
import pytest

from deploy.embedded.settings import CHECKOUT
from tests.agent_scenarios import AGENT, MOCK, SCENARIO, agent_folder, agents_left
from tests.heeler_command import HeelerCommand

EXAMPLES = CHECKOUT / "examples"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An agent with one scenario, which passes."""
    return agent_folder(tmp_path)


def test_the_scenarios_of_the_examples_pass(
    heeler_command: HeelerCommand, http: httpx.Client
) -> None:
    document = heeler_command.json("test", str(EXAMPLES), "-n", "2")
    files = set(EXAMPLES.rglob("tests/*.toml"))
    assert {Path(case["file"]) for case in document["cases"]} == files
    assert (document["passed"], document["failed"], document["error"]) == (len(files), 0, 0)
    slowest = max(document["cases"], key=lambda case: case["seconds"])
    print(f"the slowest of {len(files)} took {slowest['seconds'] * 1000:.0f} ms")
    assert agents_left(http) == []


def test_a_wrong_expectation_says_where_it_stands_and_what_differed(
    heeler_command: HeelerCommand, http: httpx.Client, folder: Path, tmp_path: Path
) -> None:
    wrong = SCENARIO.replace('contains = "Noted"', 'contains = "Forgotten"')
    (folder / "keeps.toml").write_text(wrong.replace('contains = "tea"', 'contains = "milk"'))
    junit = tmp_path / "junit.xml"
    ended = heeler_command.run("test", str(folder), "--junit", str(junit))
    assert ended.code == 1
    place = f"{folder / 'keeps.toml'}:16: turns[0].expect.contains[0]"
    assert f"{place}: the agent said nothing that contains 'Forgotten'" in ended.out
    assert "the block 'human' says nothing that contains 'milk'" in ended.out
    for line in (
        "user     I like tea.",
        'call     memory_insert(label="human", new_string="Likes tea")',
        "return   memory_insert: Likes tea",
        "agent    Noted.",
        "+ Likes tea",
    ):
        assert line in ended.out
    [case] = ElementTree.parse(junit).iter("testcase")
    [failure] = case
    assert failure.tag == "failure"
    assert "heeler runs show run-" in str(failure.text)
    assert agents_left(http) == []


def test_a_script_that_is_too_short_fails_the_case_with_what_was_heard(
    heeler_command: HeelerCommand, folder: Path
) -> None:
    (folder / "keeps.toml").write_text(SCENARIO.replace('[[model]]\ntext = "Noted."', ""))
    ended = heeler_command.run("test", str(folder))
    assert ended.code == 1
    assert "turns[0].expect: the run failed: scripted/replies: all 1 replies" in ended.out
    assert "failure  scripted/replies" in ended.out
    assert "return   memory_insert: Likes tea" in ended.out, "what was done before is shown"
    assert "nothing that contains" not in ended.out, "what follows from the failure is not told"


def test_a_mock_answers_the_calls_that_it_is_for_and_the_tool_is_not_called(
    heeler_command: HeelerCommand, folder: Path
) -> None:
    mocked = SCENARIO.replace('memory.human.contains = "tea"', 'memory.human.equals = ""') + MOCK
    returns = """tool_calls = [{ name = "memory_insert", returns = '{"kept": true}' }]"""
    mocked = mocked.replace('contains = "Noted"', returns)
    (folder / "keeps.toml").write_text(mocked)
    heeler_command("test", str(folder))
    (folder / "keeps.toml").write_text(
        mocked.replace('arguments = { label = "human" }\n', 'arguments = { label = "plans" }\n')
    )
    ended = heeler_command.run("test", str(folder))
    assert ended.code == 1
    assert 'turns[0]: no mock of memory_insert is for the arguments {"label": "human"' in ended.out
    (folder / "keeps.toml").write_text(
        mocked.replace('tool = "memory_insert"', 'tool = "memory_inserts"')
    )
    ended = heeler_command.run("test", str(folder))
    assert "has no tool memory_inserts to mock: did you mean memory_insert?" in ended.out


TOOL = """
def book(seat: int) -> str:
    '''Book a seat.

    Args:
        seat: which one
    '''
    return f"seat {seat} is booked"
"""
APPROVED = """
[scenario]
name = "asks before it books"
agent = "agent.toml"

[[model]]
tool_calls = [{ name = "book", arguments = { seat = 4 } }]

[[model]]
text = "As you wish."

[[turns]]
message = "Book seat 4."
expect.stop_reason = "requires_approval"

[[turns]]
approve = true

[turns.expect]
contains = "As you wish"
tool_calls = [{ name = "book", returns = "seat 4 is booked" }]
"""


def test_a_tool_beside_the_agent_runs_when_it_is_approved_and_is_gone_afterwards(
    heeler_command: HeelerCommand, http: httpx.Client, folder: Path
) -> None:
    own_tool = '\n[[tool]]\nfile = "book.py"\nrequires_approval = true\n'
    (folder / "agent.toml").write_text(AGENT + own_tool)
    (folder / "book.py").write_text(TOOL)
    (folder / "keeps.toml").write_text(APPROVED)
    denied = APPROVED.replace("approve = true", 'approve = false\nreason = "Too far back"')
    (folder / "denied.toml").write_text(denied.replace("seat 4 is booked", "Too far back"))
    heeler_command("test", str(folder), "-n", "2")
    assert http.get("/v1/tools/", params={"name": "book"}).json() == []
    other = http.put("/v1/tools/", json={"source_code": TOOL.replace("is booked", "is yours")})
    ended = heeler_command.run("test", str(folder))
    assert ended.code == 1
    assert "The server has another tool called book" in ended.out
    heeler_command("test", str(folder / "keeps.toml"), "--update-tools")
    [changed] = http.get("/v1/tools/", params={"name": "book"}).json()
    assert (changed["id"], changed["source_code"]) == (other.json()["id"], TOOL)
    http.delete(f"/v1/tools/{changed['id']}")


ELSEWHERE = """
[[mcp_servers]]
name = "weather"
url = "http://localhost:9/mcp"
tools = ["forecast"]

[permissions]
tools = ["forecast"]
"""
FORECAST = """
[scenario]
name = "may do no more than its file allows"
agent = "agent.toml"

[[mocks]]
tool = "forecast"
arguments = { city = "Oslo" }
returns = "rain"

[[model]]
tool_calls = [{ name = "forecast", arguments = { city = "Oslo" } }]

[[model]]
tool_calls = [{ name = "memory_insert", arguments = { label = "human", new_string = "Oslo" } }]

[[model]]
text = "It rains."

[[turns]]
message = "How is the weather in Oslo?"

[turns.expect]
tool_calls = [{ name = "forecast", returns = "rain" }, { name = "memory_insert", status = "error" }]
memory.human.equals = ""
"""


def test_an_agent_may_do_what_its_file_allows_and_tools_of_servers_elsewhere_are_mocked(
    heeler_command: HeelerCommand, folder: Path
) -> None:
    (folder / "agent.toml").write_text(AGENT + ELSEWHERE)
    (folder / "keeps.toml").write_text(FORECAST)
    heeler_command("test", str(folder))
