"""A process that dies at any request of an apply: the next one ends as if it had not."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.fleet import run
from services.api.http.callers import Caller
from tests.unit.cli.fake_server import FakeServer
from tests.unit.cli.fleets import ORG, USER, Folder

ROLL = '''
[[tool]]
requires_approval = true
source = """
def roll(sides: int) -> str:
    \\"\\"\\"Roll a die.\\"\\"\\"
    return "{}"
"""
'''
BEFORE = {
    "ada.toml": f"""
name = "ada"
system_prompt = "You are Ada."
model = "openai/gpt-4.1"
description = "A clerk"
tools = ["web_search"]
[permissions]
tools = ["roll"]
[[memory]]
label = "human"
value = "unknown"
[[memory]]
label = "house"
value = "Rules"
shared = true
{ROLL.format(1)}
[[schedules]]
name = "morning"
cron = "0 9 * * *"
message = "Good morning"
[[schedules]]
name = "evening"
cron = "0 21 * * *"
message = "Good evening"
[[groups]]
name = "team"
""",
    "bob.toml": f"""
name = "bob"
system_prompt = "You are Bob."
[[memory]]
label = "house"
value = "Rules"
shared = true
{ROLL.format(1)}
[[groups]]
name = "team"
[[mcp_servers]]
name = "notes"
url = "https://notes.example.com/mcp"
tools = ["search"]
""",
    "old.toml": 'name = "old"\nsystem_prompt = "You are old."\n',
}
AFTER = {
    "ada.toml": f"""
name = "ada"
system_prompt = "You are Ada Lovelace."
[[memory]]
label = "human"
value = "Name: Ada"
[[memory]]
label = "notes"
value = "none"
{ROLL.format(6)}
[[schedules]]
name = "morning"
cron = "0 8 * * *"
message = "Good morning"
[[schedules]]
name = "noon"
cron = "0 12 * * *"
message = "Good day"
""",
    "bob.toml": f"""
name = "bob"
system_prompt = "You are Bob."
tags = ["new"]
[[memory]]
label = "house"
value = "More rules"
shared = true
{ROLL.format(6)}
[[groups]]
name = "team"
[[groups]]
name = "choir"
""",
    "eve.toml": 'name = "eve"\nsystem_prompt = "You are Eve."\n[[groups]]\nname = "choir"\n',
}


def versions_in(path: Path) -> list[Folder]:
    """Both versions of the folder, read once."""
    versions = []
    for name, files in (("before", BEFORE), ("after", AFTER)):
        folder = Folder(path / name / "agents", fleet=None)
        folder.write("heeler-fleet.toml", 'id = "fleet-1"\nname = "ours"\n')
        for file, text in files.items():
            folder.write(file, text)
        folder.files = folder.read()
        versions.append(folder)
    return versions


def on_new_server(versions: list[Folder]) -> FakeServer:
    """Have both versions applied to a server that has nothing yet."""
    server = FakeServer()
    for folder in versions:
        folder.server = server
    return server


@pytest.mark.parametrize("answer_lost", [False, True])
@pytest.mark.parametrize("disturbed", [0, 1])
def test_an_apply_whose_process_dies_at_any_request_ends_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disturbed: int, answer_lost: bool
) -> None:
    monkeypatch.setattr(run, "LOOK_SECONDS", 0.0)
    versions = versions_in(tmp_path)
    undisturbed = on_new_server(versions)
    for folder in versions:
        assert not [outcome for outcome in folder.outcomes(prune=True) if outcome.failed]
    number = 0
    while True:
        number += 1
        server = on_new_server(versions)
        for folder in versions[:disturbed]:
            folder.apply(prune=True)
        server.lost_from, server.answer_lost = len(server.sent) + number, answer_lost
        for folder in versions[disturbed:]:
            outcomes = folder.outcomes(prune=True)
            assert [outcome.problems for outcome in outcomes if outcome.failed] == []
        if not folder.fleets.deaths:
            assert number > 10, "the fleet has more requests than that"
            return
        assert server.content() == undisturbed.content(), f"died at request {number}"
        sent = len(server.sent)
        versions[1].apply(prune=True)
        assert len(server.sent) == sent, "then nothing is left to do"


def test_an_apply_that_another_process_takes_over_goes_on_in_the_name_of_who_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "LOOK_SECONDS", 0.0)
    folder, _ = versions_in(tmp_path)
    server = folder.server
    server.lost_from = len(server.sent) + 2
    folder.apply()
    assert folder.fleets.deaths == 1
    assert folder.fleets.callers == [Caller(ORG, USER)] * 2
