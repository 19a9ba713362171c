"""What a comparison and what was applied look like: for people, and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from cli.fleet.apply import Outcome
from cli.fleet.desired import Json
from cli.fleet.plan_parts import AgentPlan, FleetPlan
from cli.fleet.run import Comparison
from libs.agent_toml.problems import Problem, to_text

SIGNS = {"create": "+", "change": "~", "delete": "-", "unchanged": "=", "refuse": "!"}
DONE = {"create": "created", "change": "changed", "delete": "deleted", "unchanged": "unchanged"}
COUNTED = ("created", "changed", "unchanged", "deleted", "failed")


def plan_lines(plan: FleetPlan) -> Iterator[str]:
    """What would change, field by field; agents that stay are left out."""
    for agent in [*plan.agents, *plan.deletions]:
        if agent.action in ("unchanged", "refuse"):
            continue
        yield f"{SIGNS[agent.action]} {agent.name}  {agent.file}"
        if agent.action == "create":
            yield from _new_lines(agent)
            continue
        for change in agent.changes:
            yield from (f"    {line}" for line in change.lines())


def _new_lines(agent: AgentPlan) -> Iterator[str]:
    desired = agent.desired
    if desired is None:
        return
    shown: dict[str, Json] = {
        "model": desired.fields.get("model"),
        "tools": [*desired.tools, *(tool.name for tool in desired.own_tools)],
        "memory": [block.label for block in desired.blocks],
        "schedules": [schedule.name for schedule in desired.schedules],
        "groups": [membership.group for membership in desired.groups],
    }
    for field, value in shown.items():
        if value:
            yield f"    {field}: {value if isinstance(value, str) else ', '.join(value)}"


def problem_lines(comparison: Comparison, *, without: Collection[Problem] = ()) -> Iterator[str]:
    """What is wrong with files, each problem with its place and its fix; warnings only of files
    that are applied now.

    Args:
        without: warnings that were told before.
    """
    unchanged = {agent.file for agent in comparison.plan.agents if agent.action == "unchanged"}
    for file in comparison.files:
        if file.name not in unchanged:
            told = (p for p in file.problems if p.severity == "error" or p not in without)
            yield from map(to_text, told)
    for agent in comparison.plan.agents:
        for problem in agent.problems:
            yield f"{agent.file}: error: {problem}"


def warnings_of(comparison: Comparison) -> Iterator[Problem]:
    """What may be a mistake in the files."""
    for file in comparison.files:
        yield from (problem for problem in file.problems if problem.severity == "warning")


def outcome_line(outcome: Outcome) -> str:
    """What came of one agent, in a line."""
    plan = outcome.plan
    if outcome.failed:
        return f"failed {plan.name} ({plan.file}): {outcome.problems[0]}"
    return f"{DONE[plan.action]} {plan.name} ({plan.file})"


def counts_of_plan(comparison: Comparison) -> dict[str, int]:
    """How many agents would be what."""
    plan = comparison.plan
    actions = [agent.action for agent in [*plan.agents, *plan.deletions]]
    counted = Counter(DONE.get(action, "failed") for action in actions)
    counted["failed"] += len(comparison.rejected_files)
    return _all_counts(counted)


def counts_of_outcomes(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """How many agents are what."""
    return _all_counts(Counter("failed" if each.failed else DONE[each.action] for each in outcomes))


def _all_counts(counted: Counter[str]) -> dict[str, int]:
    return {name: counted[name] for name in COUNTED}


def summary(counts: dict[str, int]) -> str:
    """`created 3, changed 20, unchanged 177, failed 0`."""
    return ", ".join(
        f"{name} {count}" for name, count in counts.items() if count or name != "deleted"
    )


def plan_document(comparison: Comparison) -> dict[str, Json]:
    """The comparison as a JSON document."""
    plan = comparison.plan
    agents = [_agent_document(agent) for agent in [*plan.agents, *plan.deletions]]
    return {
        "fleet": comparison.fleet.name,
        "agents": agents + _rejected_documents(comparison),
        "summary": counts_of_plan(comparison),
    }


def outcome_document(comparison: Comparison, outcomes: Sequence[Outcome]) -> dict[str, Json]:
    """What was applied, as a JSON document."""
    agents = [
        {
            **_agent_document(outcome.plan),
            "id": outcome.agent_id,
            "failed": outcome.failed,
            "problems": [{"message": text} for text in outcome.problems],
        }
        for outcome in outcomes
        if outcome.plan.desired is not None or outcome.action == "delete"
    ]
    return {
        "fleet": comparison.fleet.name,
        "agents": agents + _rejected_documents(comparison),
        "summary": counts_of_outcomes(outcomes),
    }


def _agent_document(agent: AgentPlan) -> dict[str, Json]:
    return {
        "name": agent.name,
        "file": agent.file,
        "id": agent.agent_id,
        "action": agent.action,
        "failed": agent.action == "refuse",
        "changes": [change.document() for change in agent.changes],
        "problems": [{"message": problem} for problem in agent.problems],
    }


def _rejected_documents(comparison: Comparison) -> list[dict[str, Json]]:
    return [
        {
            "name": None,
            "file": file.name,
            "id": None,
            "action": "refuse",
            "failed": True,
            "changes": [],
            "problems": [problem.model_dump(mode="json") for problem in file.problems],
        }
        for file in comparison.rejected_files
    ]
