"""Make it so: send what a plan says, agent by agent, and tell what came of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from cli.fleet.plan_parts import Action, AgentPlan, FleetPlan
from cli.fleet.requests import Ref, Refusal, Sender

WORKERS = 4  # agents are independent of each other


@dataclass(kw_only=True)
class Outcome:
    """What came of one agent: its plan, done, or the problems that kept it from it."""

    plan: AgentPlan
    problems: list[str] = field(default_factory=list)
    agent_id: str | None = None

    @property
    def failed(self) -> bool:
        """Whether the agent is not as its file wants it."""
        return bool(self.problems)

    @property
    def action(self) -> Action:
        """What was done with the agent."""
        return self.plan.action


def apply_plan(
    plan: FleetPlan,
    sender: Sender,
    *,
    report: Callable[[Outcome], None] = lambda outcome: None,
    workers: int = WORKERS,
) -> list[Outcome]:
    """What came of each agent, in the order of the plan. What is no refusal of the server, such as
    a lost connection, is raised, and the same plan may be made and sent again.

    Args:
        report: is told of each agent when it is done, in any order, from several threads.
    """
    failures = _send_resources(plan, sender)

    def applied(agent: AgentPlan) -> Outcome:
        outcome = _send_agent(agent, sender, failures.get(agent.name, []))
        report(outcome)
        return outcome

    outcomes = [*_each(applied, plan.agents, workers)]
    _send_groups(plan, sender, outcomes)
    return [*outcomes, *_each(applied, plan.deletions, workers)]


def _each(
    do: Callable[[AgentPlan], Outcome], agents: Iterable[AgentPlan], workers: int
) -> Iterable[Outcome]:
    if workers == 1:
        return map(do, agents)
    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(do, agent) for agent in agents]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _send_resources(plan: FleetPlan, sender: Sender) -> dict[str, list[str]]:
    """The problems of agents whose tools, servers or blocks were refused."""
    failures: dict[str, list[str]] = {}
    for resource in plan.resources:
        try:
            for request in resource.requests:
                answer = sender.send(request)
                if resource.ref.kind == "tool":
                    sender.ids[resource.ref] = answer["id"]
        except Refusal as refusal:
            for user in resource.users:
                failures.setdefault(user, []).append(f"{_words(resource.ref)}: {refusal}")
    return failures


def _words(ref: Ref) -> str:
    return f"{ref.kind.replace('_', ' ')} '{ref.name}'"


def _send_agent(agent: AgentPlan, sender: Sender, failures: list[str]) -> Outcome:
    outcome = Outcome(plan=agent, problems=[*agent.problems, *failures], agent_id=agent.agent_id)
    if outcome.failed:
        return outcome
    ref = Ref("agent", agent.name)
    if agent.agent_id:
        sender.ids[ref] = agent.agent_id
    try:
        for request in agent.requests:
            sender.send(request)
        outcome.agent_id = sender.ids.get(ref)
    except Refusal as refusal:
        outcome.problems.append(str(refusal))
    return outcome


def _send_groups(plan: FleetPlan, sender: Sender, outcomes: list[Outcome]) -> None:
    """Groups, without the agents that failed: they join with the next run."""
    by_name = {outcome.plan.name: outcome for outcome in outcomes}
    for group in plan.groups:
        failed = [user for user in group.users if by_name[user].failed]
        try:
            if failed:
                raise Refusal(0, f"waits for {', '.join(failed)}")
            for request in group.requests:
                sender.send(request)
        except Refusal as refusal:
            for user in group.users:
                if not by_name[user].failed:
                    by_name[user].problems.append(f"{_words(group.ref)}: {refusal}")
