"""Files that are saved while they are watched."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.fleet.files import files_of, read_agents
from cli.fleet.wakeups import has_no_events
from cli.fleet.watching import Watcher
from tests.unit.cli.fleets import ADA, Folder

HUMAN = '\n[[memory]]\nlabel = "human"\nvalue = "unknown"\n'
TOOL = 'def roll(sides: int) -> str:\n    """Roll."""\n    return "{}"\n'


class Watched:
    """A folder that is watched, with a clock that the test moves."""

    def __init__(self, folder: Folder, *, prune: bool = False) -> None:
        self.folder = folder
        self.now = 0.0
        self.said: list[str] = []
        self.told: list[str] = []
        run, comparison = folder.compare(prune=prune)
        run.apply(comparison)
        self.watcher = Watcher(
            run,
            comparison.fleet,
            lambda _, outcomes: self.told.extend(
                f"{'failed' if each.failed else each.action} {each.plan.name}"
                for each in outcomes
                if each.plan.kind == "agent"
            ),
            self.said.append,
        )
        self.watcher.know(read_agents(comparison.fleet, files_of(comparison.fleet)))

    def save(self, name: str, text: str) -> Path:
        """Save a file later than it was saved before."""
        file = self.folder.write(name, text)
        saved = file.stat().st_mtime_ns + int(self.now * 1e9) + 1
        os.utime(file, ns=(saved, saved))
        return file

    def look(self, seconds: float = 0.2) -> list[str]:
        """What was told of files by a look so many seconds later."""
        self.now += seconds
        self.told.clear()
        self.watcher.look(self.now)
        return [*self.told]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path / "agents")
    folder.write("ada.toml", ADA + HUMAN)
    return folder


def test_a_saved_file_changes_its_agent_and_keeps_id_and_memory(folder: Folder) -> None:
    watched = Watched(folder)
    block_id = folder.server.block("ada", "human")["id"]
    folder.server.blocks[block_id]["value"] = "Whiskers"
    before = folder.server.agent("ada")["id"]
    watched.save("ada.toml", ADA.replace("You are Ada", "You are Ada Lovelace") + HUMAN)
    assert watched.look() == ["change ada"]
    agent = folder.server.agent("ada")
    assert (agent["id"], agent["system"]) == (before, "You are Ada Lovelace.")
    assert folder.server.block("ada", "human")["value"] == "Whiskers"
    assert watched.look() == [], "nothing was saved since"


def test_fifty_files_saved_at_once_all_arrive(folder: Folder) -> None:
    watched = Watched(folder)
    for number in range(50):
        watched.save(f"a{number}.toml", ADA.replace("ada", f"a{number}"))
    assert len(watched.look()) == 50
    assert len(folder.server.agents) == 51
    for number in range(50):
        text = ADA.replace("ada", f"a{number}").replace("You are", "You were")
        watched.save(f"a{number}.toml", text)
    assert sorted(watched.look()) == sorted(f"change a{number}" for number in range(50))


def test_a_save_by_renaming_a_new_file_over_the_old_one_arrives(folder: Folder) -> None:
    watched = Watched(folder)
    beside = folder.write("ada.toml~", ADA.replace("You are", "You were") + HUMAN)
    beside.replace(folder.path / "ada.toml")
    assert watched.look() == ["change ada"]
    assert folder.server.agent("ada")["system"] == "You were Ada."


def test_a_file_that_is_written_in_two_parts_is_not_rejected_in_between(folder: Folder) -> None:
    watched = Watched(folder)
    watched.save("ada.toml", "")
    assert watched.look() == [], "it may be one that is being written"
    watched.save("ada.toml", ADA.replace("You are", "You were") + HUMAN)
    assert watched.look() == ["change ada"]
    assert [c["status"] for c in folder.server.configurations.values()] == ["applied"]


def test_a_file_that_is_away_for_a_moment_is_not_gone(folder: Folder) -> None:
    watched = Watched(folder, prune=True)
    (folder.path / "ada.toml").unlink()
    assert watched.look() == []
    watched.save("ada.toml", ADA.replace("You are", "You were") + HUMAN)
    assert watched.look(5) == ["change ada"]


def test_a_deleted_file_deletes_its_agent_with_prune_alone(folder: Folder) -> None:
    folder.write("bob.toml", ADA.replace("ada", "bob"))
    for prune in (False, True):
        watched = Watched(folder, prune=prune)
        file = folder.path / "ada.toml"
        file.unlink()
        watched.look()
        watched.look(5)
        assert folder.server.names() == (["bob"] if prune else ["ada", "bob"])
        assert (watched.said != []) is not prune
        file.write_text(ADA + HUMAN)


def test_files_beside_count_as_changes_of_the_agents_that_use_them(folder: Folder) -> None:
    uses = ADA.replace('system_prompt = "You are Ada."', 'system_prompt_file = "ada.md"')
    folder.write("ada.md", "You are Ada.")
    folder.write("tools/roll.py", TOOL.format(1))
    folder.write("ada.toml", f'{uses}\n[[tool]]\nfile = "tools/roll.py"\n')
    watched = Watched(folder)
    watched.save("ada.md", "You are Ada Lovelace.")
    assert watched.look() == ["change ada"]
    assert folder.server.agent("ada")["system"] == "You are Ada Lovelace."
    watched.save("tools/roll.py", TOOL.format(6))
    assert watched.look() == ["change ada"]
    sources = [tool.get("source_code", "") for tool in folder.server.agent("ada")["tools"]]
    assert 'return "6"' in "".join(sources)


def test_what_was_saved_while_the_server_was_away_is_applied_when_it_is_back(
    folder: Folder,
) -> None:
    watched = Watched(folder)
    folder.server.is_down = True
    watched.save("ada.toml", ADA.replace("You are", "You were") + HUMAN)
    assert watched.look() == watched.look() == []
    assert len(watched.said) == 1, "it is said once"
    folder.server.is_down = False
    assert watched.look() == ["change ada"]


def test_files_that_do_not_go_together_are_applied_once_they_do(folder: Folder) -> None:
    shared = '\n[[memory]]\nlabel = "house"\nvalue = "{}"\nshared = true\n'
    bob = ADA.replace("ada", "bob")
    folder.write("ada.toml", ADA + shared.format("Rules"))
    folder.write("bob.toml", bob + shared.format("Rules"))
    watched = Watched(folder)
    watched.save("ada.toml", ADA + shared.format("More rules"))
    assert watched.look() == ["failed ada"]
    assert folder.server.block("ada", "house")["value"] == "Rules"
    watched.save("bob.toml", bob + shared.format("More rules"))
    assert sorted(watched.look()) == ["change ada", "change bob"]
    assert folder.server.block("ada", "house")["value"] == "More rules"


def test_two_files_of_one_name_leave_both_agents(folder: Folder) -> None:
    watched = Watched(folder)
    watched.save("copy.toml", ADA.replace("You are", "You were"))
    assert watched.look() == ["failed ada"]
    assert folder.server.agent("ada")["system"] == "You are Ada."


WRONG: dict[str, Callable[[], str | bytes]] = {
    "no TOML": lambda: "name = ",
    "no name": lambda: ADA.replace('name = "ada"', ""),
    "a model that is not there": lambda: ADA.replace("gpt-4.1", "refused"),
    "a tool that is not there": lambda: ADA + 'tools = ["no_such_tool"]\n',
    "a tool whose source is wrong": lambda: ADA + '[[tool]]\nsource = "def roll(:"\n',
    "a value over its limit": lambda: (
        ADA + '[[memory]]\nlabel = "human"\nvalue = "too long"\nlimit = 3\n'
    ),
    "an unknown key": lambda: ADA + 'sistem = "x"\n',
    "a label twice": lambda: ADA + HUMAN + HUMAN,
    "no UTF-8": lambda: b'name = "\xff"',
    "nothing": lambda: "",
    "too much": lambda: ADA + "# " + "x" * (5 << 20),
    "a variable that is not set": lambda: ADA + '[secrets]\nTOKEN = "${NOT_SET_ANYWHERE}"\n',
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_file_that_is_wrong_leaves_the_agent_and_says_why(folder: Folder, kind: str) -> None:
    watched = Watched(folder)
    before = folder.server.agent("ada")
    text = WRONG[kind]()
    file = watched.save("ada.toml", text if isinstance(text, str) else "")
    if isinstance(text, bytes):
        file.write_bytes(text)
    sent = len(folder.server.sent)
    told = watched.look() + watched.look()
    assert len(told) == 1
    assert told[0].startswith("failed")
    assert folder.server.agent("ada") == before
    changes = [path for _, path, _ in folder.server.sent[sent:] if "configuration" not in path]
    assert changes == [], "nothing of the file is sent"
    (configuration,) = folder.server.configurations.values()
    assert configuration["status"] == "rejected"
    assert configuration["problems"][-1]["message"]
    watched.save("ada.toml", ADA + HUMAN)
    assert watched.look() == ["unchanged ada"]
    (configuration,) = folder.server.configurations.values()
    assert configuration["status"] == "applied", "the server knows that it is right again"


def test_file_systems_without_events_are_known(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/sda / ext4 rw 0 0\nserver:/x /mnt/team nfs4 rw 0 0\n/dev/sdb /mnt ext4 rw 0 0\n"
    )
    assert has_no_events(Path("/mnt/team/agents"), mounts)
    assert not has_no_events(Path("/mnt/agents"), mounts)
    assert not has_no_events(Path("/srv"), tmp_path / "none")


def test_a_file_that_moves_takes_its_agent_along_without_a_word(folder: Folder) -> None:
    watched = Watched(folder)
    before = folder.server.agent("ada")["id"]
    folder.path.joinpath("ada.toml").rename(folder.path / "eve.toml")
    told = [each for _ in range(20) for each in watched.look()]
    assert told == ["change ada"]
    assert folder.server.agent("ada")["id"] == before
    assert folder.actions() == {"ada": "unchanged"}


def test_a_file_that_was_deleted_while_the_server_was_away_is_pruned_when_it_is_back(
    folder: Folder,
) -> None:
    bob = folder.write("bob.toml", ADA.replace("ada", "bob"))
    watched = Watched(folder, prune=True)
    bob.unlink()
    folder.server.is_down = True
    for _ in range(20):
        assert watched.look() == []
    folder.server.is_down = False
    assert [each for _ in range(5) for each in watched.look() if "unchanged" not in each] == [
        "delete bob"
    ]
