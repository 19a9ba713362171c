"""A fleet against a server, which plans and applies what files say."""

from __future__ import annotations

import getpass
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel

from cli.exit_codes import CommandError, ExitCode
from cli.fleet.checks import ServerChecks
from cli.fleet.files import AgentFile, Fleet, agents_in_all_files, key_and_name, problem_document
from cli.fleet.server_transport import Transport
from libs.agent_document.desired import Json
from libs.agent_document.differences import Change

REPORTED_MAX = 100
LOOK_SECONDS, LOOK_SECONDS_MAX = 0.05, 1.0


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of the command besides the files."""

    adopt: bool = False
    prune: bool = False
    prune_max: int | None = None
    reset_memory: tuple[str, ...] = ()


class PlannedUnit(BaseModel):
    """The plan for one thing, by the server."""

    kind: str
    key: str
    name: str
    file: str = ""
    action: str = "unchanged"
    id: str | None = None
    changes: Sequence[Change] = ()
    problems: Sequence[str] = ()
    notes: Sequence[str] = ()
    unset: Sequence[str] = ()
    words: Sequence[str] = ()
    is_to_do: bool = False


class Plan(BaseModel):
    """The planned changes, and the id under which the server keeps them; `document` has all."""

    id: str
    fleet_id: str
    problem: str | None
    notes: Sequence[str]
    summary: dict[str, int]
    units: Sequence[PlannedUnit]
    document: Json

    @classmethod
    def of(cls, document: Json) -> Plan:
        """The plan that a document describes."""
        return cls.model_validate({**document, "document": document})

    @property
    def differs(self) -> bool:
        """Whether an apply has anything to do, or to note."""
        return any(unit.is_to_do for unit in self.units)

    @property
    def deletions(self) -> list[PlannedUnit]:
        """The agents and groups that would be deleted."""
        return [unit for unit in self.units if unit.action == "delete"]


@dataclass(kw_only=True)
class Outcome:
    """The outcome of one thing: its plan, done, or the problems that kept it from it. `moment` is
    the last one of what was deleted."""

    plan: PlannedUnit
    problems: list[str] = field(default_factory=list)
    agent_id: str | None = None
    moment: str | None = None

    @property
    def failed(self) -> bool:
        """Whether it is not as the files want it."""
        return bool(self.problems)

    @property
    def action(self) -> str:
        """The action that was done."""
        return self.plan.action


@dataclass(frozen=True)
class FleetServer:
    """The routes of one fleet on a server."""

    transport: Transport
    fleet_id: str

    @property
    def where(self) -> str:
        """The address of the server."""
        return self.transport.address

    @property
    def path(self) -> str:
        """The path of its routes on the server."""
        return f"/v1/fleets/{self.fleet_id}"

    @classmethod
    def of(cls, transport: Transport, fleet: Fleet) -> FleetServer:
        """The fleet of some files, which is made if it is not there."""
        named = fleet.fleet
        body = {"key": named.key, "name": named.name, "origin": named.origin}
        return cls(transport, transport.post("/v1/fleets", body)["id"])

    def plan(self, wanted: Json) -> Plan:
        """Have it planned. Raises Refusal."""
        return Plan.of(self.transport.post(f"{self.path}/plans", wanted))

    def apply_all(
        self, plan: Plan, report: Callable[[Outcome], None] = lambda outcome: None
    ) -> list[Outcome]:
        """The outcomes of a plan's things, also of those that stay. Raises Refusal, and
        CommandError where the server ended the apply."""
        if plan.problem:
            raise CommandError(plan.problem, ExitCode.REFUSED)
        done = self.apply(plan, report) if plan.differs else []
        ended = {(outcome.plan.kind, outcome.plan.key): outcome for outcome in done}
        stays = [Outcome(plan=unit, agent_id=unit.id) for unit in plan.units]
        return [ended.get((each.plan.kind, each.plan.key), each) for each in stays]

    def apply(self, plan: Plan, report: Callable[[Outcome], None]) -> list[Outcome]:
        """Have a plan applied, and wait for its end. Raises Refusal, and CommandError where it was
        given up."""
        body = {"plan_id": plan.id, "by": f"{getpass.getuser()}@{socket.gethostname()}"}
        apply_id = self.transport.post(f"{self.path}/applies", body)["id"]
        units = {(unit.kind, unit.key): unit for unit in plan.units}
        outcomes: list[Outcome] = []
        after, pause = None, LOOK_SECONDS
        while True:
            apply = self.transport.get(f"{self.path}/applies/{apply_id}")
            path = f"{self.path}/applies/{apply_id}/units"
            while page := self.transport.get(path, after=after, order="asc"):
                for unit in page:
                    outcomes.append(_outcome(unit, units))
                    report(outcomes[-1])
                after = f"{apply_id}.{len(outcomes) - 1}"
                pause = LOOK_SECONDS
            if apply["status"] == "failed":
                raise CommandError(f"The apply was given up: {apply['reason']}", ExitCode.FAILED)
            if apply["status"] == "completed":
                return outcomes
            time.sleep(pause)
            pause = min(1.5 * pause, LOOK_SECONDS_MAX)


def _outcome(unit: Json, planned: dict[tuple[str, str], PlannedUnit]) -> Outcome:
    plan = planned[unit["kind"], unit["key"]]
    return Outcome(plan=plan, problems=unit["problems"], agent_id=unit["id"], moment=unit["moment"])


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Files, and the plan that makes a server as they say."""

    fleet: Fleet
    files: Sequence[AgentFile]
    plan: Plan

    @property
    def rejected_files(self) -> list[AgentFile]:
        """The files that cannot be read as agents."""
        return [file for file in self.files if file.desired is None]

    @property
    def is_wrong(self) -> bool:
        """Whether something that was asked for is not done: notes say what is not pruned."""
        plan = self.plan
        return bool(plan.problem or plan.notes) or any(unit.problems for unit in plan.units)

    @property
    def differs(self) -> bool:
        """Whether anything is to be changed."""
        return any(unit.action not in ("unchanged", "refuse") for unit in self.plan.units)


@dataclass
class Run:
    """Compares and applies files of one fleet on one server."""

    server: FleetServer
    asked: Asked
    checks: ServerChecks

    def compare(
        self, fleet: Fleet, files: Sequence[AgentFile], *, others: Iterable[AgentFile] = ()
    ) -> Comparison:
        """The differences; changes nothing. Raises Refusal.

        Args:
            others: files in the folders that were asked for, and are not applied now.
        """
        present = agents_in_all_files(fleet) if self.asked.prune else {}
        present |= dict(_key_and_name(file) for file in (*others, *files))
        wanted = {
            "agents": [
                file.desired.model_dump(mode="json", exclude_defaults=True)
                for file in files
                if file.desired is not None
            ],
            "rejected": [_rejected(file) for file in files if file.desired is None],
            "present": present,
            "folders": fleet.folders(),
            "origin": fleet.fleet.origin,
            "adopt": self.asked.adopt,
            "prune": self.asked.prune,
            "prune_max": self.asked.prune_max,
            "reset_memory": list(self.asked.reset_memory),
        }
        return Comparison(fleet=fleet, files=files, plan=self.server.plan(wanted))

    def apply(
        self, comparison: Comparison, *, report: Callable[[Outcome], None] = lambda outcome: None
    ) -> list[Outcome]:
        """Have it all applied; what came of each thing, also of those that stay. Raises Refusal.

        Args:
            report: is told of each thing when it is done.
        """
        return self.server.apply_all(comparison.plan, report)


def _key_and_name(file: AgentFile) -> tuple[str, str]:
    if file.desired is not None:
        return file.desired.key, file.desired.name
    return key_and_name(file.path, file.name)


def _rejected(file: AgentFile) -> Json:
    """A file that is no agent, as the server is told of it."""
    key, name = _key_and_name(file)
    problems = [problem_document(problem) for problem in file.problems[:REPORTED_MAX]]
    said = {"key": key, "file": file.name, "name": name}
    return {**said, "fingerprint": file.fingerprint, "problems": problems}
