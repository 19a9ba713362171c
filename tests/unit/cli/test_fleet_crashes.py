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


def write_all(folder: Folder, files: dict[str, str]) -> None:
    for path in folder.path.glob("*.toml"):
        path.unlink()
    for name, text in files.items():
        folder.write(name, text)


def apply_both(folder: Folder) -> FakeServer:
    """The server after both versions of the files, in the way that nothing disturbs."""
    for files in (BEFORE, AFTER):
        write_all(folder, files)
        assert not [outcome for outcome in folder.apply(prune=True) if outcome.failed]
    return folder.server


@pytest.mark.parametrize("answer_lost", [False, True])
@pytest.mark.parametrize("version", [0, 1])
def test_a_run_that_ends_at_any_request_is_finished_by_the_next(
    tmp_path: Path, version: int, answer_lost: bool
) -> None:
    expected = apply_both(Folder(tmp_path / "undisturbed" / "agents"))
    versions = [BEFORE, AFTER]
    number = 0
    while True:
        number += 1
        folder = Folder(tmp_path / str(number) / "agents")
        for index, files in enumerate(versions):
            write_all(folder, files)
            if index == version and not disturb(folder, number, answer_lost=answer_lost):
                assert number > 10, "the fleet has more requests than that"
                return
            outcomes = folder.apply(prune=True)
            assert [outcome.problems for outcome in outcomes if outcome.failed] == []
        assert folder.server.content() == expected.content(), f"lost at request {number}"
        sent = len(folder.server.sent)
        folder.apply(prune=True)
        assert len(folder.server.sent) == sent, "then nothing is left to do"


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
