"""Groups of agents: all files that name a group make it together, and their fleet owns it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from libs.agent_document.desired import DesiredAgent, Json, Membership
from libs.agent_document.differences import Change
from libs.agent_document.plan_parts import (
    Applied,
    Document,
    FleetState,
    Subject,
    Unit,
    Wanted,
    some_of,
)
from libs.agent_document.requests import Ref, Request, creation, patch, removal

GROUPS_PATH = "/v1/agent-groups"
OF_THE_GROUP = ("description", "hops_max", "shared_state_mode")  # the rest is of its manager

type Ids = Mapping[str, str]  # of the agents that are there, by their keys


def plan_groups(
    desired: Sequence[DesiredAgent], ids: Ids, state: FleetState, wanted: Wanted
) -> list[Unit]:
    """The units of groups that files name; agents of others stay members."""
    members: dict[str, list[tuple[DesiredAgent, Membership]]] = {}
    for agent in desired:
        for membership in agent.groups:
            members.setdefault(membership.group, []).append((agent, membership))
    return [_plan_group(name, members[name], ids, state, wanted) for name in sorted(members)]


def _plan_group(
    name: str,
    entries: Sequence[tuple[DesiredAgent, Membership]],
    ids: Ids,
    state: FleetState,
    wanted: Wanted,
) -> Unit:
    unit = Unit(kind="group", key=name, name=name, users=[agent.key for agent, _ in entries])
    managers = [agent for agent, membership in entries if membership.role == "manager"]
    fields: dict[str, Json] = {}
    for agent, membership in entries:
        for field, value in membership.fields.items():
            if fields.setdefault(field, value) != value:
                unit.refuse(f"group '{name}': {agent.file} says another `{field}` than others")
                return unit
    if len(managers) > 1:
        names = some_of([agent.name for agent in managers])
        unit.refuse(f"group '{name}': it has one manager, not {names}")
        return unit
    own = {field: value for field, value in fields.items() if field in OF_THE_GROUP}
    manager: dict[str, Any] = {
        field: value for field, value in fields.items() if field not in OF_THE_GROUP
    }
    if managers:
        manager["manager_agent_id"] = Ref(kind="agent", name=managers[0].key)
    members = [agent for agent, membership in entries if membership.role == "member"]
    there = state.groups.get(name)
    if there is None:
        _create(unit, members, own, manager)
    else:
        _change(unit, there, members, ids, own, manager)
        _keep_to_owners(unit, there, state, wanted)
    return unit


def _keep_to_owners(unit: Unit, there: Document, state: FleetState, wanted: Wanted) -> None:
    """A group of others is joined, and becomes this fleet's, where that is asked for."""
    unit.id = str(there["id"])
    if state.is_ours(unit.id):
        return
    if wanted.adopt:
        unit.action, unit.applied = "change", Applied()
        unit.changes.append(state.adoption(unit.id))
    elif unit.changes:
        whose = state.why_not_ours(unit.id)
        unit.refuse(f"group '{unit.name}' ({unit.id}) {whose}: join it with --adopt")


def _create(
    unit: Unit, members: Sequence[DesiredAgent], own: Mapping[str, Json], manager: dict[str, Any]
) -> None:
    body: dict[str, Json] = {
        "name": unit.name,
        "agent_ids": [Ref(kind="agent", name=agent.key) for agent in members],
        "description": "",
        **own,
    }
    if manager:
        kind = "supervisor" if "manager_agent_id" in manager else "round_robin"
        body["manager_config"] = {"manager_type": kind, **manager}
    unit.action, unit.applied = "create", Applied()
    names = some_of([agent.name for agent in members])
    ref = Ref(kind="group", name=unit.name)
    unit.change(Change(field="members", after=names), creation((GROUPS_PATH,), body, ref))


def _change(
    unit: Unit,
    there: Document,
    members: Sequence[DesiredAgent],
    ids: Ids,
    own: Mapping[str, Json],
    manager: Mapping[str, Any],
) -> None:
    path = (GROUPS_PATH, str(there["id"]))
    present = set(there["agent_ids"])
    for agent in members:
        if ids.get(agent.key) not in present:
            ref = Ref(kind="agent", name=agent.key)
            leave = removal((*path, "members", ref))
            join = Request(
                method="POST", path=(*path, "members"), body={"agent_id": ref}, undo=leave
            )
            unit.change(Change(field="members", after=agent.name), join)
    changed = {name: value for name, value in own.items() if there.get(name) != value}
    turns = {
        name: value
        for name, value in manager.items()
        if there.get(name) != (ids.get(value.name) if isinstance(value, Ref) else value)
    }
    for name, value in {**changed, **turns}.items():
        shown = value.name if isinstance(value, Ref) else value
        unit.changes.append(Change(field=name, before=there.get(name), after=shown))
    if turns:
        kind = manager.get("manager_type", there.get("manager_type"))
        changed["manager_config"] = {"manager_type": kind, **manager}
    if changed:
        config = {name: there.get(name) for name in ("manager_type", *manager)}
        given = {name: value for name, value in config.items() if value is not None}
        unit.steps.append(patch(path, changed, {**there, "manager_config": given}))
    if unit.changes:
        unit.action, unit.applied = "change", Applied()


def plan_withdrawals(subject: Subject) -> None:
    """The groups that an agent leaves because its file does not name them any more. A group that no
    agent is left in stays, empty: it has a shared state and a history."""
    wanted = {membership.group for membership in subject.desired.groups}
    for name in subject.before.groups:
        there = subject.state.groups.get(name)
        if name in wanted or there is None or subject.agent_id not in there["agent_ids"]:
            continue
        members = (GROUPS_PATH, str(there["id"]), "members")
        again = Request(method="POST", path=members, body={"agent_id": subject.agent_id})
        subject.unit.changes.append(Change(field=f"group {name}", before=subject.desired.name))
        subject.cleanups.append(removal((*members, subject.agent_id), again))
