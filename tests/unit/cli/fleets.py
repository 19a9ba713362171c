"""Files of a fleet for tests, and what applies them to a server in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cli.fleet.apply import Outcome
from cli.fleet.checks import ServerChecks
from cli.fleet.files import AgentFile, Checks, files_of, fleet_of, read_agents
from cli.fleet.journal import Journal
from cli.fleet.plan_parts import Policy
from cli.fleet.run import Comparison, Run
from libs.agent_toml import DEFAULT_RULES
from tests.unit.cli.fake_server import FakeServer

ADA = """
name = "ada"
system_prompt = "You are Ada."
model = "openai/gpt-4.1"
"""


@dataclass
class Folder:
    """A folder of files, and a server."""

    path: Path
    server: FakeServer = field(default_factory=FakeServer)
    environment: Mapping[str, str] = field(default_factory=dict)
    journal: Path | None = None
    files: list[AgentFile] | None = None  # instead of reading them each time

    def write(self, name: str, text: str) -> Path:
        """Write a file of the folder."""
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def read(self) -> list[AgentFile]:
        """The files as they are now."""
        fleet = fleet_of([self.path])
        return read_agents(fleet, files_of(fleet), Checks(environment=self.environment))

    def compare(self, **asked: Any) -> tuple[Run, Comparison]:
        """The files against the server."""
        prune = asked.pop("prune", False)
        fleet = fleet_of(asked.pop("paths", [self.path]), asked.pop("fleet", None))
        policy = Policy(fleet=fleet.name, **asked)
        journal = Journal(self.journal or self.path.parent / "journal.json")
        checks = ServerChecks(self.server, DEFAULT_RULES)
        run = Run(self.server, policy, checks, prune=prune, workers=1, journal=journal)
        files = self.files or self.read()
        return run, run.compare(fleet, files)

    def apply(self, **asked: Any) -> list[Outcome]:
        """Apply all files."""
        run, comparison = self.compare(**asked)
        return run.apply(comparison)

    def actions(self, **asked: Any) -> dict[str, str]:
        """Apply all files; what was done with each agent."""
        return {
            outcome.plan.name: "failed" if outcome.failed else outcome.action
            for outcome in self.apply(**asked)
        }
