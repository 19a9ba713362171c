"""The plan of a fleet: what differs between files and a server, and the requests that end that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from cli.fleet.desired import DesiredAgent
from cli.fleet.mark import Mark
from cli.fleet.plan_agent import plan_agent
from cli.fleet.plan_groups import plan_groups
from cli.fleet.plan_parts import AgentPlan, FleetPlan, Policy
from cli.fleet.plan_resources import plan_resources
from cli.fleet.requests import Request
from cli.fleet.server_state import ServerState


def plan_fleet(
    desired: Sequence[DesiredAgent],
    state: ServerState,
    policy: Policy,
    *,
    is_orphan: Callable[[str], bool] = lambda file: False,
) -> FleetPlan:
    """What becomes of agents and of what they use.

    Args:
        is_orphan: whether an agent of this file is deleted where no file names it any more.
    """
    policy = replace(policy, names=policy.names | {agent.name for agent in desired})
    plan = FleetPlan(agents=[plan_agent(agent, state, policy) for agent in desired])
    plan.resources = plan_resources(desired, state, policy)
    _refuse_users_of_problems(plan)
    refused = {agent.name for agent in plan.agents if agent.action == "refuse"}
    accepted = [agent for agent in desired if agent.name not in refused]
    plan.resources = [
        resource
        for resource in plan.resources
        if not resource.problem and not refused.issuperset(resource.users)
    ]
    plan.groups = plan_groups(accepted, state, policy)
    _refuse_users_of_problems(plan)
    plan.groups = [group for group in plan.groups if not group.problem]
    _tell_users(plan)
    plan.deletions = _deletions(state, policy, is_orphan, {a.agent_id for a in plan.agents})
    return plan


def _refuse_users_of_problems(plan: FleetPlan) -> None:
    """A file is sent whole or not at all."""
    agents = {agent.name: agent for agent in plan.agents}
    for resource in [*plan.resources, *plan.groups]:
        for user in resource.users if resource.problem else ():
            agents[user].refuse(resource.problem)
            agents[user].changes.clear()
            agents[user].requests.clear()


def _tell_users(plan: FleetPlan) -> None:
    """An agent is changed where a tool of it is, or a group."""
    agents = {agent.name: agent for agent in plan.agents}
    for resource in [*plan.resources, *plan.groups]:
        for user in resource.users:
            agent = agents[user]
            if agent.action == "unchanged":
                agent.action = "change"
            if agent.action == "change":
                agent.changes.extend(resource.changes)


def _deletions(
    state: ServerState,
    policy: Policy,
    is_orphan: Callable[[str], bool],
    kept: set[str | None],
) -> list[AgentPlan]:
    """The agents of this fleet that no file names any more. Memory blocks that only they have are
    deleted with them; tools stay."""
    plans = []
    for agent in state.of_fleet(policy.fleet):
        mark = Mark.of(agent)
        if mark is None or agent["id"] in kept or agent["name"] in policy.names:
            continue
        if is_orphan(mark.file):
            request = Request(
                method="DELETE", path=("/v1/agents", str(agent["id"])), absent_is_done=True
            )
            plans.append(
                AgentPlan(
                    name=str(agent["name"]),
                    file=mark.file,
                    action="delete",
                    agent_id=str(agent["id"]),
                    requests=[request],
                )
            )
    return sorted(plans, key=lambda plan: plan.name)
