"""Groups of agents: all files that name a group make it together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cli.fleet.desired import DesiredAgent, Json, Membership
from cli.fleet.differences import Change
from cli.fleet.mark import MARK, Mark
from cli.fleet.plan_parts import Policy, ResourcePlan, Subject
from cli.fleet.requests import Ref, Request
from cli.fleet.server_state import ServerState

GROUPS_PATH = "/v1/agent-groups"
OF_THE_GROUP = ("description", "hops_max", "shared_state_mode")  # the rest is of its manager


def plan_groups(
    desired: Sequence[DesiredAgent], state: ServerState, policy: Policy
) -> list[ResourcePlan]:
    """What becomes of groups that files name; agents of others stay members."""
    members: dict[str, list[tuple[DesiredAgent, Membership]]] = {}
    for agent in desired:
        for membership in agent.groups:
            members.setdefault(membership.group, []).append((agent, membership))
    plans = [_plan_group(name, entries, state, policy) for name, entries in sorted(members.items())]
    return [plan for plan in plans if plan.requests or plan.problem]


def _plan_group(
    name: str,
    entries: Sequence[tuple[DesiredAgent, Membership]],
    state: ServerState,
    policy: Policy,
) -> ResourcePlan:
    plan = ResourcePlan(ref=Ref("group", name), users=[agent.name for agent, _ in entries])
    managers = [agent.name for agent, membership in entries if membership.role == "manager"]
    fields: dict[str, Json] = {}
    for agent, membership in entries:
        for field, value in membership.fields.items():
            if fields.setdefault(field, value) != value:
                plan.problem = f"group '{name}': {agent.file} says another `{field}` than others"
                return plan
    if len(managers) > 1:
        plan.problem = f"group '{name}': it has one manager, not {', '.join(managers)}"
        return plan
    there = state.groups.get(name)
    own = {field: value for field, value in fields.items() if field in OF_THE_GROUP}
    manager: dict[str, Any] = {
        field: value for field, value in fields.items() if field not in OF_THE_GROUP
    }
    if managers:
        manager["manager_agent_id"] = Ref("agent", managers[0])
    wanted = [agent.name for agent, membership in entries if membership.role == "member"]
    if there is None:
        _create(plan, wanted, own, manager, policy)
    else:
        _change(plan, wanted, own, manager, state)
    return plan


def _create(
    plan: ResourcePlan,
    wanted: Iterable[str],
    own: Mapping[str, Json],
    manager: dict[str, Any],
    policy: Policy,
) -> None:
    body: dict[str, Json] = {
        "name": plan.ref.name,
        "agent_ids": [Ref("agent", agent) for agent in wanted],
        "description": "",
        **own,
        "metadata": {MARK: {"fleet": policy.fleet}},
    }
    if manager:
        kind = "supervisor" if "manager_agent_id" in manager else "round_robin"
        body["manager_config"] = {"manager_type": kind, **manager}
    plan.changes = [Change(f"group {plan.ref.name}", None, ", ".join(plan.users))]
    plan.requests = [Request(method="POST", path=(GROUPS_PATH,), body=body, creates=plan.ref)]


def _change(
    plan: ResourcePlan,
    wanted: Sequence[str],
    own: Mapping[str, Json],
    manager: Mapping[str, Any],
    state: ServerState,
) -> None:
    there = state.groups[plan.ref.name]
    path = (GROUPS_PATH, str(there["id"]))
    field = f"group {plan.ref.name}"
    present = set(there["agent_ids"])
    for name in wanted:
        known = state.agents_named(name)
        if not known or known[0]["id"] not in present:
            body = {"agent_id": Ref("agent", name)}
            plan.changes.append(Change(field, None, name))
            plan.requests.append(Request(method="POST", path=(*path, "members"), body=body))
    changed = {name: value for name, value in own.items() if there.get(name) != value}
    turns = {
        name: value
        for name, value in manager.items()
        if not _is_same(there.get(name), value, state)
    }
    if turns:
        kind = manager.get("manager_type", there.get("manager_type"))
        changed["manager_config"] = {"manager_type": kind, **manager}
    if changed:
        for name, value in {**changed, **turns}.items():
            if name != "manager_config":
                shown = value.name if isinstance(value, Ref) else value
                plan.changes.append(Change(f"{field}.{name}", there.get(name), shown))
        plan.requests.append(Request(method="PATCH", path=path, body=changed))


def _is_same(there: Json, wanted: Json, state: ServerState) -> bool:
    if isinstance(wanted, Ref):
        return any(agent["id"] == there for agent in state.agents_named(wanted.name))
    return bool(there == wanted)


def plan_withdrawals(subject: Subject, before: Mark) -> None:
    """The groups that an agent leaves because its file does not name them any more. A group that no
    agent is left in stays, empty: it has a shared state and a history."""
    wanted = {membership.group for membership in subject.desired.groups}
    for name in before.groups:
        there = subject.state.groups.get(name)
        if name in wanted or there is None or subject.agent_id not in there["agent_ids"]:
            continue
        path = (GROUPS_PATH, str(there["id"]), "members", subject.agent_id)
        subject.plan.changes.append(Change(f"group {name}", subject.desired.name, None))
        subject.cleanups.append(Request(method="DELETE", path=path, absent_is_done=True))
