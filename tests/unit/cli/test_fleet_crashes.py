"""A run that loses the server, or is killed, at any request: the next one ends as if it had not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.fake_server import ConnectionLost, FakeServer
from tests.unit.cli.fleets import Folder

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
        folder = Folder(path / name / "agents")
        for file, text in files.items():
            folder.write(file, text)
        folder.files = folder.read()
        versions.append(folder)
    return versions


def on_new_server(versions: list[Folder], journal: Path) -> FakeServer:
    """Have both versions applied to a server that has nothing yet."""
    server = FakeServer()
    for folder in versions:
        folder.server, folder.journal = server, journal
    return server


@pytest.mark.parametrize("answer_lost", [False, True])
@pytest.mark.parametrize("disturbed", [0, 1])
def test_a_run_that_ends_at_any_request_is_finished_by_the_next(
    tmp_path: Path, disturbed: int, answer_lost: bool
) -> None:
    versions = versions_in(tmp_path)
    undisturbed = on_new_server(versions, tmp_path / "journal.json")
    for folder in versions:
        assert not [outcome for outcome in folder.apply(prune=True) if outcome.failed]
    number = 0
    while True:
        number += 1
        server = on_new_server(versions, tmp_path / f"journal-{number}.json")
        for folder in versions[:disturbed]:
            folder.apply(prune=True)
        if not disturb(versions[disturbed], number, answer_lost=answer_lost):
            assert number > 10, "the fleet has more requests than that"
            return
        for folder in versions[disturbed:]:
            outcomes = folder.apply(prune=True)
            assert [outcome.problems for outcome in outcomes if outcome.failed] == []
        assert server.content() == undisturbed.content(), f"lost at request {number}"
        sent = len(server.sent)
        versions[1].apply(prune=True)
        assert len(server.sent) == sent, "then nothing is left to do"


def disturb(folder: Folder, number: int, **how: Any) -> bool:
    """Apply with a connection that breaks at the request of this number; whether it broke."""
    server = folder.server
    server.lost_from = len(server.sent) + number
    server.answer_lost = how["answer_lost"]
    try:
        folder.apply(prune=True)
    except ConnectionLost:
        return True
    finally:
        server.lost_from = None
    return False
