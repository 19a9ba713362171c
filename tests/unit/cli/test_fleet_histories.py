"""Random histories of a fleet: whatever files, clients, people and deaths do, no agent is lost,
doubled or overwritten that the plan did not say."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cli.exit_codes import CommandError
from cli.fleet import run as fleet_run
from cli.fleet.run import Comparison, Plan
from tests.unit.cli.fake_server import FakeServer
from tests.unit.cli.fleets import Folder

HISTORIES = int(os.environ.get("FLEET_HISTORIES", "60"))  # all of them: 500
STEPS = 14
FILE = """
name = "{name}"
system_prompt = "{prompt}"
[[memory]]
label = "human"
value = "{value}"
"""


@dataclass
class AgentFile:
    """What a file says."""

    name: str
    prompt: str
    value: str


@dataclass
class History:
    """A fleet, and who does things to it."""

    random: Random
    folder: Folder
    words: int = 0
    files: dict[str, AgentFile] = field(default_factory=dict)
    stale: tuple[Any, Comparison] | None = None
    told: list[str] = field(default_factory=list)
    learned: dict[str, str] = field(default_factory=dict)  # values that agents wrote, by block

    @property
    def server(self) -> FakeServer:
        """The server in memory."""
        return self.folder.server

    def word(self) -> str:
        """A text that nothing else has."""
        self.words += 1
        return f"word {self.words}"

    # What happens to files

    def save(self) -> None:
        """Write all files as they are to be."""
        for path in self.folder.path.rglob("*.toml"):
            if path.name != "heeler-fleet.toml":
                path.unlink()
        for key, file in self.files.items():
            self.folder.write(key, FILE.format(**vars(file)))

    def any_file(self) -> str | None:
        """One of the files, if there is any."""
        return self.random.choice(sorted(self.files)) if self.files else None

    def add_file(self) -> None:
        """A new agent."""
        word = self.word().replace(" ", "")
        self.files[f"{word}.toml"] = AgentFile(word, self.word(), self.word())

    def edit_file(self) -> None:
        """Another prompt, or another value to begin with."""
        if key := self.any_file():
            setattr(self.files[key], self.random.choice(["prompt", "value"]), self.word())

    def move_file(self) -> None:
        """The same file elsewhere."""
        if key := self.any_file():
            self.files[f"x{self.word().replace(' ', '')}/a.toml"] = self.files.pop(key)

    def rename_agent(self) -> None:
        """Another name in the same file."""
        if key := self.any_file():
            self.files[key].name = self.word().replace(" ", "")

    def swap_files(self) -> None:
        """Two files change their places."""
        if len(self.files) > 1:
            one, two = self.random.sample(sorted(self.files), 2)
            self.files[one], self.files[two] = self.files[two], self.files[one]

    def delete_file(self) -> None:
        """One file less."""
        if key := self.any_file():
            del self.files[key]

    # What clients do

    def any_agent(self) -> Any:
        """One of the agents, if there is any."""
        return self.random.choice([*self.server.agents.values()]) if self.server.agents else None

    def learn(self) -> None:
        """An agent writes its memory."""
        if (agent := self.any_agent()) and agent["block_ids"]:
            value = self.learned[agent["block_ids"][0]] = self.word()
            self.server.blocks[agent["block_ids"][0]]["value"] = value

    def wipe_metadata(self) -> None:
        """A client replaces what it knows nothing of."""
        if agent := self.any_agent():
            agent["metadata"] = {"mine": self.word()}

    def rename_by_hand(self) -> None:
        """A client gives an agent another name."""
        if agent := self.any_agent():
            agent["name"] = self.word().replace(" ", "")

    def delete_by_hand(self) -> None:
        """A client deletes an agent."""
        if agent := self.any_agent():
            self.server._act("DELETE", ["agents", agent["id"]], None, None)

    def make_by_hand(self) -> None:
        """A client makes an agent, sometimes of a name that a file has."""
        key = self.any_file()
        name = self.files[key].name if key and self.random.random() < 0.5 else self.word()
        block = {"label": "human", "value": self.word()}
        body = {"name": name.replace(" ", ""), "memory_blocks": [block], "system": self.word()}
        self.server._act("POST", ["agents"], body, None)

    # What people do with the fleet

    def apply(self) -> None:
        """Apply all files, or one of them; sometimes the process dies meanwhile."""
        self.save()
        asked: dict[str, Any] = {"prune": self.random.random() < 0.4, "prune_max": 99}
        asked["adopt"] = self.random.random() < 0.2
        key = self.any_file()
        if key and self.random.random() < 0.25:
            asked["paths"] = [self.folder.path / key]
        try:
            run, comparison = self.folder.compare(**asked)
        except CommandError as refused:  # two files of one name
            self.told.append(str(refused))
            return
        self.carry_out(run, comparison)
        if not comparison.is_wrong and "paths" not in asked:
            _, again = self.folder.compare(**asked)
            to_do = [unit for unit in again.plan.units if unit.is_to_do]
            assert to_do == [], "a second time changes nothing"
            if asked["prune"]:
                self.check_all()

    def carry_out(self, run: Any, comparison: Comparison) -> None:
        """Apply a plan, and check that it did what it said."""
        before = {agent_id: self.server._shown(a) for agent_id, a in self.server.agents.items()}
        if self.random.random() < 0.3:
            self.server.lost_from = len(self.server.sent) + self.random.randrange(1, 12)
            self.server.answer_lost = self.random.random() < 0.5
        try:
            run.apply(comparison)
        except CommandError as refused:
            self.told.append(str(refused))
            assert {**self.server.agents}.keys() == before.keys(), "what is refused changes nothing"
            return
        finally:
            self.server.lost_from = None
        self.check(before, comparison.plan)

    def apply_stale(self) -> None:
        """Apply a plan that somebody else made before."""
        if self.stale is not None:
            self.carry_out(*self.stale)
        self.save()
        try:
            self.stale = self.folder.compare(prune=True, prune_max=99)
        except CommandError:
            self.stale = None

    def undo(self) -> None:
        """Take the last apply back."""
        rows = [r for r in self.folder.fleets.queries.rows("fleet_applies") if not r["undoes"]]
        if not rows:
            return
        before = {agent_id: self.server._shown(a) for agent_id, a in self.server.agents.items()}
        run = self.folder.run()
        plan = run.server.plan({"undo": rows[-1]["id"]})
        run.server.apply_all(plan)
        self.check(before, plan)

    # What holds

    def check(self, before: dict[str, Any], plan: Plan) -> None:
        """Nothing was lost, doubled or overwritten that the plan did not say."""
        units = [unit for unit in plan.units if unit.kind == "agent"]
        after = {agent_id: self.server._shown(a) for agent_id, a in self.server.agents.items()}
        said = {unit.id: unit for unit in units if unit.id is not None}
        made = [unit for unit in units if unit.action == "create"]
        lost = before.keys() - after.keys()
        assert lost == {unit.id for unit in units if unit.action == "delete"} & before.keys()
        assert len(after.keys() - before.keys()) == len(made)
        assert sorted(after[agent_id]["name"] for agent_id in after.keys() - before.keys()) == (
            sorted(unit.name for unit in made)
        )
        for agent_id in before.keys() & after.keys():
            old, new = before[agent_id], after[agent_id]
            fields = {c.field for c in said[agent_id].changes} if agent_id in said else set()
            for name in ("name", "system"):
                assert old[name] == new[name] or name in fields, (name, plan)
            assert old["metadata"] == new["metadata"]
            for block in new["blocks"]:
                was = next((b for b in old["blocks"] if b["id"] == block["id"]), None)
                assert (
                    was is None
                    or was["value"] == block["value"]
                    or (
                        "memory.human.value" in fields
                        and self.learned.get(block["id"]) != was["value"]
                    )
                )

    def check_all(self) -> None:
        """The fleet's agents are those of the files, each once."""
        members = self.folder.fleets.queries.rows("fleet_members", kind="agent")
        assert len({row["thing_id"] for row in members}) == len(members)
        owned = {row["key"]: row["thing_id"] for row in members}
        for key, file in self.files.items():
            if key in owned:
                agent = self.server.agents[owned[key]]
                assert (agent["name"], agent["system"]) == (file.name, file.prompt)
        assert owned.keys() <= self.files.keys()


STEP_NAMES = (
    *("add_file", "add_file", "edit_file", "edit_file", "move_file", "rename_agent"),
    *("swap_files", "delete_file", "learn", "learn", "wipe_metadata", "rename_by_hand"),
    *("delete_by_hand", "make_by_hand", "apply", "apply", "apply", "apply", "apply_stale", "undo"),
)


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_nothing_is_lost_doubled_or_overwritten_that_the_plan_did_not_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(fleet_run, "LOOK_SECONDS", 0.0)
    folder = Folder(tmp_path / "agents", fleet=None)
    folder.write("heeler-fleet.toml", 'id = "fleet-1"\nname = "ours"\n')
    history = History(Random(seed), folder)
    for _ in range(3):
        history.add_file()
    history.apply()
    for _ in range(STEPS):
        step = history.random.choice(STEP_NAMES)
        history.told.append(step)
        try:
            getattr(history, step)()
        except AssertionError as wrong:
            raise AssertionError(f"{history.told}\n{history.files}\n{wrong}") from wrong
