"""Apply the plans of fleets: each under a lease, unit by unit, one plan of a fleet at a time.

What came of a unit is an event, with which the fleet owns what was made. A process that dies is
followed by another one, which begins with the unit that has not ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from libs.agent_document.plan_parts import Applied, FleetPlan, Member, Unit, some_of
from libs.agent_document.requests import Ids, Ref
from libs.bus.fair_semaphore import FairSemaphore
from libs.bus.process_ports import ProcessPorts
from libs.contracts.api.fleets import FleetMember, UnitOutcome
from libs.contracts.bus_messages import JsonObject
from libs.eventstore.unit_of_work import UnitOfWork
from libs.work.leased_work import LeasedWork
from libs.work.work_lease import DueWork, WorkLease
from services.api.adapters.agents.fleet_queries import FleetQueries, StoredPlan, name_of, ref_of
from services.api.domain.fleet import Fleet, RunningApply
from services.api.engine.fleet_api import ApiAway, FleetApi, Refused

APPLIES_AT_ONCE_MAX, APPLIES_OF_ORG_AT_ONCE_MAX = 4, 2
TEXT_CHARS_MAX = 2_000
CODE = "FLEET"  # of problems that the server found
NOT_KEPT = "Its plan is not kept any more: plan again"
RESULTS: Mapping[str, str] = {
    "create": "created",
    "change": "changed",
    "delete": "deleted",
    "release": "forgotten",
    "refuse": "failed",
    "unchanged": "unchanged",
}


@dataclass(slots=True, kw_only=True)
class FleetPorts(ProcessPorts):
    """The ports of applies, besides those of each engine. `api` is the API in the name of an
    organisation and of the requester."""

    queries: FleetQueries
    api: Callable[[str, str], FleetApi]


@dataclass
class Attempt:
    """The state of an attempt at an apply: the plan, the ids of what there is, and the units that
    have failed so far."""

    running: RunningApply
    stored: StoredPlan
    api: FleetApi
    org: str
    ids: Ids
    failed: dict[int, str]

    @property
    def plan(self) -> FleetPlan:
        """The plan that is applied."""
        return self.stored.plan


class FleetApplies(LeasedWork[DueWork]):
    """The applies that this process makes."""

    name = "fleet apply"
    ports: FleetPorts

    def __init__(self, ports: FleetPorts) -> None:
        places = FairSemaphore(
            APPLIES_AT_ONCE_MAX,
            of_organisation_max=APPLIES_OF_ORG_AT_ONCE_MAX,
            users="applies of fleets",
            thing="place",
        )
        super().__init__(ports, places)

    async def due(self) -> Sequence[DueWork]:
        """The fleets that are being applied, and that nobody works on."""
        return await self.ports.queries.due_fleets(APPLIES_AT_ONCE_MAX)

    async def give_up(self, unit: UnitOfWork, work: DueWork, reason: str) -> None:
        """Decide that an apply has failed; what it has done stays."""
        (await unit.load(Fleet, work.id)).end(at=self.ports.clock.now(), reason=reason)

    async def attempt(self, lease: WorkLease[DueWork]) -> None:
        """Apply what is left of a plan."""
        from services.api.engine.fleet_steps import RetryingApi

        fleet = await lease.unit().load(Fleet, lease.work.id)
        running, org = fleet.state.running, lease.work.org
        if running is None:
            return
        stored = await self.ports.queries.plan(org, running.plan_id)
        if stored is None:
            await self.end(lease, NOT_KEPT)
            return
        ended = await self.ports.queries.ended_units(org, running.apply_id)
        made = {ref_of(name): each for unit in ended for name, each in unit.ids.items()}
        attempt = Attempt(
            running=running,
            stored=stored,
            api=RetryingApi(self.ports.api(org, running.requested_by), self.ports.clock),
            org=org,
            ids={**stored.known_ids(), **made},
            failed={
                unit.number: str(unit.fields.get("problems"))
                for unit in ended
                if unit.fields.get("result") == "failed"
            },
        )
        units = stored.plan.units
        for number in range(running.done, len(units)):
            outcome = await self.outcome(attempt, number, units[number])
            await self.record(lease, outcome, units[number])
        await self.end(lease)

    async def outcome(self, attempt: Attempt, number: int, unit: Unit) -> UnitOutcome:
        """The outcome of a unit."""
        from services.api.engine.fleet_steps import FleetSteps

        steps = FleetSteps(
            attempt.api,
            f"fleet-{attempt.running.apply_id}.{number}",
            attempt.ids,
        )
        problems = [*unit.problems, *waits_for(attempt, unit)]
        moment = ""
        if not problems and unit.action == "delete" and unit.id is not None:
            moment = await last_moment(attempt.api, unit.id)
        if not problems and (problem := await steps.send_all(unit.steps)):
            problems = [problem]
        if problems:
            attempt.failed[number] = problems[0]
        thing_id = steps.made.get(Ref(kind=unit.kind, name=unit.key)) or unit.id
        await report(attempt.api, unit, thing_id, problems)
        return outcome_of(number, unit, thing_id, problems, steps.made, moment)

    async def record(self, lease: WorkLease[DueWork], outcome: UnitOutcome, unit: Unit) -> None:
        """Record what came of a unit, also for the fleet that owned its thing before. What another
        one has taken over meanwhile stays that one's."""
        at, org = self.ports.clock.now(), lease.work.org
        before = {lease.work.id, unit.taken_from.fleet_id if unit.taken_from else ""}

        async def decide(work: UnitOfWork) -> None:
            fleet = await work.load(Fleet, lease.work.id)
            ids = [member.id for member in outcome.members]
            owners, _ = await self.ports.queries.owners(org, ids) if ids else ({}, None)
            if any(owner.fleet_id not in before for owner in owners.values()):
                fleet.end_unit(outcome.model_copy(update={"members": []}), at=at)
                return
            fleet.end_unit(outcome, at=at)
            if unit.taken_from is not None and outcome.members:
                other = await work.load(Fleet, unit.taken_from.fleet_id)
                gone = outcome.members[0].model_copy(update={"key": unit.taken_from.key})
                other.release(gone, at=at)

        await lease.record(decide, release=False, advances=True)

    async def end(self, lease: WorkLease[DueWork], reason: str = "") -> None:
        """Record that nothing is left to do, or why it is not done."""

        async def decide(work: UnitOfWork) -> None:
            fleet = await work.load(Fleet, lease.work.id)
            fleet.end(at=self.ports.clock.now(), reason=reason)

        await lease.record(decide)


def waits_for(attempt: Attempt, unit: Unit) -> list[str]:
    """The things an agent uses that could not be made, or the agents that a group waits for."""
    units = attempt.plan.units
    failed = [(units[number], problem) for number, problem in attempt.failed.items()]
    if unit.kind == "agent":
        return [f"{each}: {problem}" for each, problem in failed if unit.key in each.users]
    names = [each.name for each, _ in failed if each.kind == "agent" and each.key in unit.users]
    return [f"{unit} waits for {some_of(names)}"] if names and unit.kind == "group" else []


async def last_moment(api: FleetApi, agent_id: str) -> str:
    """The last event of an agent before its deletion: as of that it can be had back. A process that
    died may have deleted it already."""
    path = f"/v1/agents/{agent_id}/events"
    try:
        deletions = await api.get(path, topic="agent.deleted", limit=1)
        before = {"after": deletions[0]["id"]} if deletions else {}  # the newest come first
        events = await api.get(path, limit=1, **before)
    except (Refused, ApiAway):
        return ""
    return str(events[0]["id"]) if events else ""


async def report(api: FleetApi, unit: Unit, agent_id: str | None, problems: Sequence[str]) -> None:
    """Tell an agent what became of its file. What is said to that changes nothing."""
    if unit.kind != "agent" or agent_id is None or unit.report is None:
        return
    found = [problem_document(unit.file, text) for text in problems if text not in unit.problems]
    body = {
        **unit.report,
        "file": unit.file,
        "status": "rejected" if problems else "applied",
        "problems": [*unit.report["problems"], *found],
    }
    try:
        await api.send("PUT", f"/v1/agents/{agent_id}/configuration", body, None)
    except (Refused, ApiAway):
        return  # it was deleted meanwhile


def problem_document(file: str, text: str) -> JsonObject:
    """A problem of a file as a whole."""
    return {"file": file, "code": CODE, "message": text[:TEXT_CHARS_MAX], "severity": "error"}


def outcome_of(
    number: int,
    unit: Unit,
    thing_id: str | None,
    problems: Sequence[str],
    made: Ids,
    moment: str,
) -> UnitOutcome:
    """The recorded outcome of a unit."""
    members, released = memberships(unit, thing_id, made, is_refused=bool(problems))
    fields: dict[str, Any] = {
        **unit.model_dump(mode="json", include={"kind", "key", "name", "file", "action"}),
        "id": thing_id,
        "result": "failed" if problems else RESULTS[unit.action],
        "problems": [*problems],
        "moment": moment or None,
    }
    ids = {name_of(ref): each for ref, each in made.items()}
    return UnitOutcome(number=number, fields=fields, ids=ids, members=members, released=released)


def memberships(
    unit: Unit, thing_id: str | None, made: Ids, *, is_refused: bool
) -> tuple[list[FleetMember], list[FleetMember]]:
    """The members that a fleet has gained, and those that it has lost. It also owns the things that
    could not be taken back."""
    before, has_left = unit.before, Ref(kind=unit.kind, name=unit.key) in made
    if is_refused and not has_left:
        if before is None:
            return [], []
        known = before.applied.model_copy(update={"rejected": True})
        key = unit.key if unit.action == "delete" else before.key  # another may have that one now
        return [stored_member(before.model_copy(update={"applied": known, "key": key}))], []
    released = [stored_member(before)] if before is not None else []
    if thing_id is None or unit.releases or unit.action in ("delete", "release"):
        return [], released
    applied = Applied() if is_refused else unit.applied
    if applied is None:
        return [], []
    after = Member(kind=unit.kind, key=unit.key, id=thing_id, name=unit.name, applied=applied)
    return [stored_member(after)], [each for each in released if each.id != thing_id]


def stored_member(member: Member) -> FleetMember:
    """A thing that a fleet owns, as an event says it."""
    applied = member.applied.model_dump(mode="json", exclude_defaults=True)
    return FleetMember.model_validate({**member.model_dump(), "applied": applied})
