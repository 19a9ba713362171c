"""Scenario files: what is found, what is wrong with one, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.agent_tests.found_files import found_in, is_test
from cli.agent_tests.scenario_files import read
from cli.fleet.files import files_of, fleet_of
from tests.agent_scenarios import AGENT, SCENARIO, agent_folder
from tests.heeler_command import HeelerCommand


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return agent_folder(tmp_path)


WRONG = [
    (
        SCENARIO.replace('contains = "Noted"', 'contain = "Noted"'),
        "16:1: error AGT102: there is no key `contain` in turns[0].expect",
        "did you mean: contains",
    ),
    (
        SCENARIO.replace("human.contains", "human.contain"),
        "17:14: error AGT102: there is no key `contain` in turns[0].expect.memory.human",
        "did you mean: contains",
    ),
    (
        SCENARIO.replace('"agent.toml"', '"agents.toml"'),
        "4:9: error AGT205: there is no file agents.toml",
        "expected: the agent's file",
    ),
    (
        SCENARIO.replace('contains = "Noted"', 'matches = "(N"'),
        "16:11: error AGT106: turns[0].expect.matches",
        "missing ): (N",
    ),
    (
        SCENARIO.replace('message = "I like tea."', ""),
        "12:1: error AGT106: turns[0]",
        "give either `message` or `approve`",
    ),
    (
        SCENARIO + '\n[[mocks]]\ntool = "memory_insert"\n',
        "19:1: error AGT106: mocks[0]",
        "give either `returns` or `error`",
    ),
    (SCENARIO + "\nsteps_max = 2.5", "19:13: error AGT103", "expected: a whole number"),
    (SCENARIO + "\nsteps_max = = 2", "19:13: error AGT001", "Invalid value"),
]


@pytest.mark.parametrize(("text", "place", "words"), WRONG, ids=[place for _, place, _ in WRONG])
def test_a_wrong_scenario_is_told_with_line_and_column(
    command: HeelerCommand, folder: Path, text: str, place: str, words: str
) -> None:
    (folder / "keeps.toml").write_text(text)
    ended = command.run("test", str(folder))
    assert (ended.code, ended.out) == (2, "")
    assert f"{folder}/keeps.toml:{place}" in ended.err
    assert words in ended.err


def test_all_wrong_files_are_told_at_once_and_the_agents_too(
    command: HeelerCommand, folder: Path
) -> None:
    (folder / "wrong.toml").write_text(SCENARIO.replace("message", "massage"))
    (folder / "agent.toml").write_text(AGENT.replace("system_prompt", "system"))
    ended = command.run("test", str(folder))
    assert ended.code == 2
    assert f"{folder}/agent.toml:4:1: error AGT102: there is no key `system`" in ended.err
    assert f"{folder}/wrong.toml:13:1: error AGT102: there is no key `massage`" in ended.err


def test_scenarios_are_found_among_other_files(command: HeelerCommand, folder: Path) -> None:
    for name in (".venv", "node_modules", "deep"):
        (folder / name).mkdir()
        (folder / name / "keeps.toml").write_text(SCENARIO)
    (folder / "notes.toml").write_text("title = '[scenario]'\n")
    assert list(found_in([folder, folder / "keeps.toml"])) == [
        folder / "deep" / "keeps.toml",
        folder / "keeps.toml",
    ]
    assert command.run("test", str(folder / "nowhere")).code == 2
    ended = command.run("test", str(folder / "keeps.toml"), "-k", "no such name")
    assert (ended.code, ended.err) == (2, "There are no scenarios to try\n")


@pytest.mark.parametrize(
    "text",
    [
        '[scenario]\nname = "load"\nusers = 3\n\n[[steps]]\nget = "/"\n',
        '[scenario]\nagent = "007"\n\n[[turns]]\nunit = "tank"\n',
        "[scenario]\nbroken = = 1\n",
    ],
)
def test_a_scenario_of_another_project_is_none_of_ours(folder: Path, text: str) -> None:
    (folder / "theirs.toml").write_text(text)
    assert list(found_in([folder])) == [folder / "keeps.toml"]
    assert files_of(fleet_of([folder])) == [folder / "agent.toml"], "and it is no agent"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SCENARIO, True),
        ('[scenario]\nagent = "a.toml"\n[[ turns ]]\nmessage = "Hi"\n', True),
        ('turns = [{ message = "Hi" }]\n[scenario]\nagent = "a.toml"\n', True),
        ('[scenario]\nagent = "agents/one.toml"\n', False),
        ('[scenario]\nagent = "agents/one.toml"\nturns_max = 2\n', False),
    ],
)
def test_pytest_takes_a_file_where_something_is_said(
    folder: Path, text: str, expected: bool
) -> None:
    (folder / "keeps.toml").write_text(text)
    assert is_test(folder / "keeps.toml") == expected
    assert list(found_in([folder])) == [folder / "keeps.toml"], "and the command tells of it"


def test_a_wrong_scenario_of_ours_is_found(folder: Path) -> None:
    (folder / "broken.toml").write_text(SCENARIO + "\nsteps_max = = 2")
    (folder / "no-agent.toml").write_text(SCENARIO.replace("agent = ", "agnet = "))
    assert {file.stem for file in found_in([folder])} == {"broken", "keeps", "no-agent"}


def test_a_scenario_is_no_agent_of_the_fleet_that_it_stands_in(folder: Path) -> None:
    assert files_of(fleet_of([folder])) == [folder / "agent.toml"]


def test_the_replies_are_those_of_the_file_or_else_a_cassette(folder: Path) -> None:
    assert read(folder / "keeps.toml").scenario.kind == "scripted"
    text = SCENARIO[: SCENARIO.index("[[model]]")] + SCENARIO[SCENARIO.index("[[turns]]") :]
    (folder / "keeps.toml").write_text(text)
    found = read(folder / "keeps.toml")
    assert found.scenario.kind == "cassette"
    assert found.cassette_file == folder / "keeps.cassette.json"
