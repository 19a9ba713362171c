"""A fleet against a server: compare, apply, and report to the server what became of each file."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cli.fleet.apply import WORKERS, Outcome, apply_plan
from cli.fleet.checks import ServerChecks
from cli.fleet.desired import Json
from cli.fleet.files import AgentFile, Fleet
from cli.fleet.journal import Journal
from cli.fleet.mark import Mark
from cli.fleet.plan import plan_fleet
from cli.fleet.plan_parts import AgentPlan, FleetPlan, Policy
from cli.fleet.requests import Ref, Refusal, Request, Sender, Transport
from cli.fleet.server_state import Reader, ServerState
from libs.agent_toml.problems import Problem
from libs.contracts.outside_texts import decode_text

REPORTED_MAX = 100
TEXT_CHARS_MAX = 2_000
REFUSED = "FLEET"  # the code of problems that the comparison with the server found


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Files, what the server has, and the plan that makes both the same."""

    fleet: Fleet
    files: Sequence[AgentFile]
    state: ServerState
    plan: FleetPlan

    @property
    def rejected_files(self) -> list[AgentFile]:
        """The files that cannot be read as agents."""
        return [file for file in self.files if file.desired is None]

    @property
    def is_wrong(self) -> bool:
        """Whether a file cannot be applied."""
        return bool(self.rejected_files) or any(agent.problems for agent in self.plan.agents)

    @property
    def differs(self) -> bool:
        """Whether anything is to be sent."""
        plan = self.plan
        acts = any(agent.action not in ("unchanged", "refuse") for agent in plan.agents)
        return acts or bool(plan.deletions)


@dataclass
class Run:
    """Compares and applies files of one fleet on one server.

    Args:
        policy: without the names of agents.
        known_agents: ids of agents by the names of their files, from earlier comparisons.
        journal: remembers on this machine what was not reported yet.
    """

    transport: Transport
    policy: Policy
    checks: ServerChecks
    prune: bool = False
    workers: int = WORKERS
    known_agents: dict[str, str] = field(default_factory=dict)
    journal: Journal = field(default_factory=Journal)

    def compare(
        self, fleet: Fleet, files: Sequence[AgentFile], *, others: frozenset[str] = frozenset()
    ) -> Comparison:
        """What differs; changes nothing.

        Args:
            others: names of agents that files describe which are not compared now.
        """
        desired = [file.desired for file in files if file.desired is not None]
        unknown = [
            file for file in files if file.desired is None and file.name not in self.known_agents
        ]
        reader = Reader(self.transport, self.policy.fleet)
        state = reader.read(desired, everything=self.prune or bool(unknown))
        for agent in state.of_fleet(self.policy.fleet):
            mark = Mark.of(agent)
            assert mark is not None, "agents of a fleet are marked"
            self.known_agents[mark.file] = str(agent["id"])
        names = others | frozenset(self._names_of(files))
        there = {file.name for file in files}
        # A file that does not even say its name may be that of any agent, under another path.
        prune = self.prune and all(_name_in(file) for file in files)

        def is_orphan(file: str) -> bool:
            gone = file not in there and not (fleet.root / file).exists()
            return prune and gone and fleet.is_asked_for(file)

        policy = replace(self.policy, names=names)
        plan = plan_fleet(desired, state, policy, is_orphan=is_orphan)
        return Comparison(fleet=fleet, files=files, state=state, plan=plan)

    def _names_of(self, files: Sequence[AgentFile]) -> list[str]:
        """The names of agents, also of those whose files are wrong."""
        return [name for file in files if (name := _name_in(file))]

    def apply(
        self, comparison: Comparison, *, report: Callable[[Outcome], None] = lambda outcome: None
    ) -> list[Outcome]:
        """Send it all; tells the server of each file that was applied or rejected.

        Args:
            report: is told of each agent when it is done.
        """
        sender = Sender(self.transport, comparison.state.ids(), self.policy.fleet)
        by_name = {file.desired.name: file for file in comparison.files if file.desired}
        unreported = self.journal.read()
        self.journal.add(
            agent.file for agent in comparison.plan.agents if agent.action != "unchanged"
        )
        for agent in comparison.state.agents.values():
            sender.ids.setdefault(Ref("agent", str(agent["name"])), str(agent["id"]))

        def done(outcome: Outcome) -> None:
            file = by_name.get(outcome.plan.name)
            if file is not None and outcome.agent_id and outcome.action != "delete":
                self.known_agents[file.name] = outcome.agent_id
                if outcome.action != "unchanged" or outcome.failed or file.name in unreported:
                    self._tell(sender, file, outcome.agent_id, outcome.problems)
            report(outcome)

        outcomes = apply_plan(comparison.plan, sender, report=done, workers=self.workers)
        for file in comparison.rejected_files:
            outcome = Outcome(
                plan=AgentPlan(name=_name_in(file) or file.path.stem, file=file.name),
                problems=[problem.message for problem in file.errors],
                agent_id=self._agent_of(file, comparison.state),
            )
            outcome.plan.action = "refuse"
            if outcome.agent_id:
                self._tell(sender, file, outcome.agent_id, [])
            outcomes.append(outcome)
            report(outcome)
        self.journal.remove(outcome.plan.file for outcome in outcomes if not outcome.failed)
        self.journal.add(outcome.plan.file for outcome in outcomes if outcome.failed)
        return outcomes

    def _agent_of(self, file: AgentFile, state: ServerState) -> str | None:
        """The agent that a file which cannot be applied was applied to before."""
        if agent_id := self.known_agents.get(file.name):
            return agent_id
        name = _name_in(file)
        for agent in state.of_fleet(self.policy.fleet):
            if agent["name"] == name:
                return str(agent["id"])
        return None

    def _tell(
        self, sender: Sender, file: AgentFile, agent_id: str, problems: Sequence[str]
    ) -> None:
        """Tell the server what became of a file. What it says to that changes nothing."""
        found = [*file.problems, *(_problem(file, text) for text in problems)]
        rejected = bool(problems) or file.desired is None
        body = {
            "file": file.name,
            "fingerprint": file.fingerprint,
            "status": "rejected" if rejected else "applied",
            "problems": [_document(problem) for problem in found[:REPORTED_MAX]],
        }
        path = ("/v1/agents", agent_id, "configuration")
        try:
            sender.send(Request(method="PUT", path=path, body=body))
        except Refusal:
            return  # the agent was deleted meanwhile, or the server has no such route


def _problem(file: AgentFile, text: str) -> Problem:
    return Problem(file=file.name, line=0, column=0, code=REFUSED, message=text)


def _document(problem: Problem) -> dict[str, Json]:
    document: dict[str, Any] = {
        "file": problem.file,
        "line": problem.line or None,
        "column": problem.column or None,
        "code": problem.code,
        "message": problem.message[:TEXT_CHARS_MAX],
        "expected": problem.expected[:TEXT_CHARS_MAX] or None,
        "suggestion": problem.suggestion[:TEXT_CHARS_MAX] or None,
        "severity": problem.severity,
    }
    return document


def _name_in(file: AgentFile) -> str:
    """The name of the agent as far as the file can be read; empty if it says none."""
    if file.desired is not None:
        return file.desired.name
    try:
        name = tomllib.loads(decode_text(file.path.read_bytes())).get("name")
    except (OSError, ValueError, RecursionError):
        return ""
    return name if isinstance(name, str) else ""
