"""The plan of a fleet: what differs between its files and a server, and the requests that end that.

A file is applied whole or not at all, and what it names is refused with it. An agent is known by
its key, so another name in the same file renames it; files that change places take their agents
with them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from libs.agent_document.desired import DesiredAgent
from libs.agent_document.differences import Change
from libs.agent_document.plan_agent import AGENTS_PATH, plan_agent, unit_of
from libs.agent_document.plan_groups import plan_groups
from libs.agent_document.plan_parts import (
    Document,
    FleetPlan,
    FleetState,
    Member,
    Unit,
    Wanted,
    some_of,
)
from libs.agent_document.plan_resources import plan_resources
from libs.agent_document.requests import Ref, Request, removal

PRUNE_FRACTION, PRUNE_MAX = 0.2, 5
type Matched = Mapping[str, Member]  # by the keys of files


def plan_fleet(wanted: Wanted, state: FleetState, origin: str = "") -> FleetPlan:
    """The plan for agents and the things they use. Pure, and the same for the same arguments.

    Args:
        origin: where the fleet was made from; it is pruned from nowhere else.
    """
    members = matching_members(wanted, state)
    units = [unit_of(desired) for desired in wanted.agents]
    agents: dict[str, Document] = {}
    for unit, desired in zip(units, wanted.agents, strict=True):
        agent = _agent_of(unit, desired, members.get(desired.key), state, wanted)
        if agent is not None:
            agents[desired.key] = agent
        if not unit.problems:
            plan_agent(unit, desired, agent, members.get(desired.key), state, wanted)
    _refuse_duplicates(units)
    resources = plan_resources(wanted.agents, agents, state, wanted)
    _refuse_users(units, resources)
    refused = {unit.key for unit in units if unit.problems}
    resources = [unit for unit in resources if not refused.issuperset(unit.users)]
    accepted = [desired for desired in wanted.agents if desired.key not in refused]
    ids = {key: str(agent["id"]) for key, agent in agents.items()}
    groups = plan_groups(accepted, ids, state, wanted)
    _refuse_users(units, groups)
    refused = {unit.key for unit in units if unit.problems}
    groups = [unit for unit in groups if not unit.problems and refused.isdisjoint(unit.users)]
    unreadable = [key for key, name in wanted.present.items() if not name] if wanted.prune else []
    prunes = wanted.prune and not unreadable
    deletions = [*_deletions(wanted, state, members)] if prunes else []
    units += _displaced(state, members, {unit.id for unit in deletions})
    deleted = sum(unit.action == "delete" for unit in deletions)
    problem = _why_no_prune(wanted, state, deleted, origin) if wanted.prune else ""
    problem = problem or _unknown_memory(wanted)
    rejections = [*_rejections(wanted, state)]
    resources = [unit for unit in resources if not unit.problems]
    planned = [*resources, *units, *rejections, *groups, *deletions]
    for unit in planned:
        member = (
            members.get(unit.key) if unit.kind == "agent" else state.member(unit.kind, unit.key)
        )
        unit.before = unit.before or member
        if unit.applied is not None and unit.id is not None and unit.action != "refuse":
            unit.taken_from = state.other_owner(unit.id)
    spared = "nothing is pruned: it names no agent that can be read, and may be the file of any"
    notes = [f"{key}: {spared}" for key in unreadable]
    return FleetPlan(units=planned, problem=problem, notes=notes)


def matching_members(wanted: Wanted, state: FleetState) -> Matched:
    """Which agent of the fleet each file is about: the one under its key and name; the one that it
    says it was; one of its name whose file is gone, or is about another agent now; and else the one
    under its key, which gets another name."""
    free = {member.id: member for member in state.members if member.kind == "agent"}
    by_key, by_name = _grouped(free, "key"), _grouped(free, "name")
    names = {desired.key: desired.name for desired in wanted.agents}
    found: dict[str, Member] = {}

    def take(desired: DesiredAgent, candidates: Iterable[Member]) -> None:
        if desired.key not in found:
            member = next((each for each in candidates if each.id in free), None)
            if member is not None:
                found[desired.key] = free.pop(member.id)

    def named(desired: DesiredAgent) -> Iterable[Member]:
        return (each for each in by_name[desired.name] if _has_left(each, names, wanted))

    for desired in wanted.agents:
        take(desired, (each for each in by_key[desired.key] if each.name == desired.name))
    for desired in wanted.agents:
        if desired.was is not None:
            known = by_name[desired.was]
            take(desired, by_key[desired.was] or (known if len(known) == 1 else ()))
    for desired in wanted.agents:
        take(desired, named(desired))
    for desired in wanted.agents:
        take(desired, by_key[desired.key])
    return found


def _grouped(members: Mapping[str, Member], field: str) -> Mapping[str, Sequence[Member]]:
    groups: dict[str, list[Member]] = defaultdict(list)
    for member in members.values():
        groups[getattr(member, field)].append(member)
    return groups


def _has_left(member: Member, names: Mapping[str, str], wanted: Wanted) -> bool:
    """Whether the file of an agent is gone, or is about another one now."""
    if member.key in names:
        return names[member.key] != member.name
    return wanted.covers(member.key) and member.key not in wanted.present


def _agent_of(
    unit: Unit, desired: DesiredAgent, member: Member | None, state: FleetState, wanted: Wanted
) -> Document | None:
    """The agent that a file is about, if it is there. Refuses where that is not certain."""
    if member is not None:
        agent = state.agents.get(member.id)
        is_renamed = member.key == desired.key and member.name != desired.name
        is_alone = not wanted.covers(desired.key)
        if agent is not None and is_renamed and is_alone and desired.was is None:
            unit.refuse(
                f"{desired.file} was about '{member.name}' ({member.id}) when it was applied last:"
                f' apply the whole fleet, or say `was = "{member.name}"` to rename it'
            )
        return agent
    found = state.by_name.get(desired.name, ())
    ours = [agent for agent in found if state.is_ours(str(agent["id"]))]
    if ours:
        ids = some_of([str(agent["id"]) for agent in ours])
        unit.refuse(
            f"the agent '{desired.name}' ({ids}) is of another file of this fleet: apply the whole"
            " fleet, or say with `was` which agent this one is"
        )
        return None
    if len(found) > 1:
        ids = some_of([str(agent["id"]) for agent in found])
        unit.refuse(f"{len(found)} agents are called '{desired.name}' ({ids}): rename the others")
        return None
    return found[0] if found else None


def _refuse_duplicates(units: Sequence[Unit]) -> None:
    """Two files of one agent."""
    for field in ("key", "name"):
        files: dict[str, list[str]] = {}
        for unit in units:
            files.setdefault(getattr(unit, field), []).append(unit.file)
        for unit in units:
            duplicates = files[getattr(unit, field)]
            if len(duplicates) > 1 and not unit.problems:
                shown = f"{some_of(duplicates)} have the same {field} '{getattr(unit, field)}'"
                unit.refuse(f"{shown}: give one of them another")


def _refuse_users(units: Sequence[Unit], used: Sequence[Unit]) -> None:
    """A file is applied whole or not at all."""
    by_key = {unit.key: unit for unit in units}
    for thing in used:
        for problem in thing.problems:
            for key in thing.users:
                by_key[key].refuse(problem)


def _rejections(wanted: Wanted, state: FleetState) -> Iterator[Unit]:
    """Files that are wrong. Their agents stay, and are told."""
    for file in wanted.rejected:
        member = state.member("agent", file.key)
        yield Unit(
            kind="agent",
            key=file.key,
            name=file.name or (member.name if member else ""),
            file=file.file,
            action="refuse",
            id=member.id if member else None,
            problems=[
                str(problem.get("message", ""))
                for problem in file.problems
                if problem.get("severity") != "warning"
            ],
            before=member,
            report={"fingerprint": file.fingerprint, "problems": file.problems},
        )


def _displaced(state: FleetState, members: Matched, deleted: set[str | None]) -> Iterator[Unit]:
    """The agents whose file is about another one now, and that no file is about. They stay the
    fleet's, under a key of their own, until they are pruned."""
    kept = deleted | {member.id for member in members.values()}
    for member in state.members:
        if member.kind == "agent" and member.key in members and member.id not in kept:
            key = f"{member.key} {member.id}"
            unit = Unit(kind="agent", key=key, name=member.name, file=member.key, id=member.id)
            unit.before, unit.applied, unit.action = member, member.applied, "change"
            unit.change(Change(field="file", before=member.key))
            unit.notes.append("no file is about it any more: it stays, and --prune deletes it")
            yield unit


def _deletions(wanted: Wanted, state: FleetState, members: Matched) -> Iterator[Unit]:
    """The agents of this fleet that no file is about any more. Memory blocks that only they have
    are deleted with them; tools stay. Those that are gone already are forgotten."""
    names = set(wanted.present.values())
    kept = {member.id for member in members.values()}
    for member in sorted(state.members, key=lambda each: each.key):
        is_of_a_file = member.key in wanted.present and member.key not in members
        is_named = is_of_a_file or member.name in names
        if member.kind == "agent" and member.id not in kept and not is_named:
            key = f"{member.key} {member.id}" if member.key in members else member.key
            yield _deletion(member, key, state.agents.get(member.id))


def _deletion(member: Member, key: str, agent: Document | None) -> Unit:
    name = str(agent["name"]) if agent else member.name
    unit = Unit(kind="agent", key=key, name=name, file=member.key, id=member.id, action="release")
    unit.before = member
    if agent is not None:
        path = (AGENTS_PATH, member.id)
        ref = Ref(kind="agent", name=key)
        # An undo knows the moment before.
        undo = Request(method="POST", path=(*path, "fork"), body={"name": name}, creates=ref)
        unit.action = "delete"
        unit.change(Change(field="name", before=name), removal(path, undo))
    return unit


def _unknown_memory(wanted: Wanted) -> str:
    """Which memory is to be reset that no file is about; empty if that is fine."""
    names = {file.name for file in wanted.rejected}
    for desired in wanted.agents:
        names |= {desired.name, *(block.label for block in desired.shared_blocks)}
    unknown = sorted({*wanted.reset_memory} - names)
    about = "no file that is applied is about an agent, or a shared block, of that name"
    return f"--reset-memory {', '.join(unknown)}: {about}" if unknown else ""


def _why_no_prune(wanted: Wanted, state: FleetState, deletions: int, origin: str) -> str:
    """Why nothing is deleted, and so nothing applied; empty if that is fine."""
    size = sum(member.kind == "agent" for member in state.members)
    default = max(PRUNE_MAX, int(size * PRUNE_FRACTION))
    most = default if wanted.prune_max is None else wanted.prune_max
    if not wanted.present:
        return "--prune would delete the whole fleet, for there is no file of it: check the folder"
    if origin and wanted.origin != origin:
        return (
            f"The fleet was made from {origin}, and these files are in {wanted.origin or 'a place'}"
            " that says nothing of itself: commit a heeler-fleet.toml (heeler fleet init) to prune"
            " it from several places"
        )
    if deletions > most:
        return (
            f"--prune would delete {deletions} of {size} agents, and at most {most} at once: look"
            f" at `heeler diff --prune`, and say --prune-max {deletions}"
        )
    return ""
