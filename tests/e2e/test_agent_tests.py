"""`heeler test`: scenarios on fresh agents, and what a wrong expectation says."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import httpx
import pytest

from deploy.embedded.settings import CHECKOUT
from tests.heeler_command import HeelerCommand

EXAMPLES = CHECKOUT / "examples"

AGENT = """
name = "tested"
description = "Made for tests of tests."
system_prompt = "Be kind."
tools = ["memory_insert"]
include_base_tools = false

[[memory]]
label = "human"
description = "Who it talks to."
"""
SCENARIO = """
[scenario]
name = "keeps what it is told"
agent = "agent.toml"

[[model]]
tool_calls = [{ name = "memory_insert", arguments = { label = "human", new_string = "Likes tea" } }]

[[model]]
text = "Noted."

[[turns]]
message = "I like tea."

[turns.expect]
contains = "Noted"
memory.human.contains = "tea"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An agent with one scenario, which passes."""
    made = tmp_path / "agent"
    made.mkdir()
    (made / "agent.toml").write_text(AGENT)
    (made / "keeps.toml").write_text(SCENARIO)
    return made


def agents_left(http: httpx.Client) -> list[str]:
    return [
        agent["name"] for agent in http.get("/v1/agents/", params={"tags": "heeler-test"}).json()
    ]


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
