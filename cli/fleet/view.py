"""Views of a comparison and of an apply: for people, and as JSON."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from cli.fleet.files import AgentFile
from cli.fleet.run import Comparison, Outcome, Plan, PlannedUnit
from libs.agent_document.desired import Json
from libs.agent_document.differences import Change
from libs.agent_toml.problems import Problem, to_text
from libs.contracts.outside_texts import lines_of

SIGNS = {"create": "+", "change": "~", "delete": "-", "release": "-", "refuse": "!"}
DONE = {
    "create": "created",
    "change": "changed",
    "delete": "deleted",
    "release": "forgotten",
    "unchanged": "unchanged",
    "refuse": "failed",
}
LINES_OF_CONTEXT = 2
PLANNED = {
    "created": "to create",
    "changed": "to change",
    "deleted": "to delete",
    "failed": "refused",
}
COUNTED = ("created", "changed", "unchanged", "deleted", "failed")
NOT_SHOWN = frozenset({"fleet", "file"})  # the words say it


def plan_lines(plan: Plan) -> Iterator[str]:
    """The changes, field by field; unchanged fields are left out."""
    for unit in plan.units:
        if unit.action in ("unchanged", "refuse"):
            yield from (f"= {_named(unit)}: {note}" for note in unit.notes)
            continue
        yield f"{SIGNS[unit.action]} to {', '.join(unit.words)}: {_named(unit)}"
        changes = unit.changes if unit.action == "change" else ()
        for change in changes:
            if change.field not in NOT_SHOWN:
                yield from (f"    {line}" for line in change_lines(change))
        yield from (f"    {note}" for note in unit.notes)
        if unit.unset:
            yield f"    not set here, and needed to apply it: {', '.join(unit.unset)}"
    yield from (f"! {text}" for text in (*plan.notes, plan.problem) if text)


def change_lines(change: Change) -> list[str]:
    """A change as people read it: texts of several lines as a difference of texts."""
    before, after = change.before, change.after
    texts = isinstance(before, str | None) and isinstance(after, str)
    if texts and ("\n" in after or "\n" in (before or "")):
        difference = difflib.unified_diff(
            lines_of(before or ""), lines_of(after), lineterm="", n=LINES_OF_CONTEXT
        )
        return [f"{change.field}:", *(f"  {line}" for line in [*difference][2:])]
    overwritten = " (memory overwritten)" if change.overwrites else ""
    return [f"{change.field}: {_shown(before)} -> {_shown(after)}{overwritten}"]


def _shown(value: Json) -> str:
    match value:
        case None:
            return "(none)"
        case list() | tuple():
            return "[" + ", ".join(map(_shown, value)) + "]"
        case dict():
            return (
                "{" + ", ".join(f"{name} = {_shown(inner)}" for name, inner in value.items()) + "}"
            )
        case _:
            return repr(value)


def _named(unit: PlannedUnit) -> str:
    """A thing as people find it: kind, name, file, id."""
    kind = "" if unit.kind == "agent" else f"{unit.kind.replace('_', ' ')} "
    places = [unit.file, f"({unit.id})" if unit.id else ""]
    return "  ".join([f"{kind}{unit.name}", *filter(None, places)])


def problem_lines(comparison: Comparison, *, without: Collection[Problem] = ()) -> Iterator[str]:
    """The problems of files, each with its place and its fix; warnings only of files that are
    applied now.

    Args:
        without: warnings that were told before.
    """
    units = comparison.plan.units
    unchanged = {unit.file for unit in units if unit.action == "unchanged"}
    for file in comparison.files:
        if file.name not in unchanged:
            shown = (p for p in file.problems if p.severity == "error" or p not in without)
            yield from map(to_text, shown)
    rejected = {file.name for file in comparison.rejected_files}
    for unit in units:
        if unit.file not in rejected:
            for problem in unit.problems:
                yield f"{unit.file or _named(unit)}: error: {problem}"


def warnings_of(comparison: Comparison) -> Iterator[Problem]:
    """The possible mistakes in the files."""
    for file in comparison.files:
        yield from (problem for problem in file.problems if problem.severity == "warning")


def outcome_line(outcome: Outcome) -> str:
    """The outcome of one thing, in a line, with remarks below it."""
    plan = outcome.plan
    named = f"{plan.name or plan.file} ({plan.file})" if plan.file else _named(plan)
    if outcome.failed:
        return f"failed {named}: {outcome.problems[0]}"
    return "\n    ".join([f"{DONE[plan.action]} {named}", *plan.notes])


def ways_back(outcomes: Iterable[Outcome]) -> Iterator[str]:
    """The commands that restore deleted things."""
    for outcome in outcomes:
        if outcome.action == "delete" and outcome.moment and not outcome.failed:
            yield f"heeler agents fork {outcome.agent_id} --at {outcome.moment}"


def counts_of_plan(comparison: Comparison) -> dict[str, int]:
    """The number of agents by planned action."""
    return {name: comparison.plan.summary[name] for name in COUNTED}


def counts_of_outcomes(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """The number of agents by outcome; the things they use are counted where they failed."""
    counted = Counter(
        "failed" if each.failed else DONE[each.action]
        for each in outcomes
        if each.plan.kind == "agent" or each.failed
    )
    return {name: counted[name] for name in COUNTED}


def summary(counts: dict[str, int]) -> str:
    """`created 3, changed 20, unchanged 177, failed 0`."""
    return ", ".join(
        f"{name} {count}" for name, count in counts.items() if count or "delete" not in name
    )


def planned_summary(counts: dict[str, int]) -> str:
    """`to create 3, to change 20, unchanged 177, refused 0`."""
    return summary({PLANNED.get(name, name): count for name, count in counts.items()})


def plan_document(comparison: Comparison) -> dict[str, Json]:
    """The comparison as a JSON document."""
    plan = comparison.plan
    outcomes = [
        Outcome(plan=unit, problems=[*unit.problems], agent_id=unit.id) for unit in plan.units
    ]
    name, rejected = comparison.fleet.fleet.name, comparison.rejected_files
    document = outcome_document(name, plan, outcomes, rejected)
    return {
        **document,
        "plan_id": plan.id,
        "problem": plan.problem,
        "summary": counts_of_plan(comparison),
    }


def outcome_document(
    fleet: str, plan: Plan, outcomes: Sequence[Outcome], rejected: Sequence[AgentFile] = ()
) -> dict[str, Json]:
    """The outcomes of an apply, as a JSON document."""
    files = {file.name: file for file in rejected}
    documents = [
        (outcome.plan.kind, _document(outcome, files.get(outcome.plan.file)))
        for outcome in outcomes
    ]
    return {
        "fleet": fleet,
        "fleet_id": plan.fleet_id,
        "agents": [document for kind, document in documents if kind == "agent"],
        "resources": [{"kind": kind, **each} for kind, each in documents if kind != "agent"],
        "notes": [*plan.notes],
        "summary": counts_of_outcomes(outcomes),
    }


def _document(outcome: Outcome, rejected: AgentFile | None) -> dict[str, Json]:
    plan = outcome.plan
    problems: list[Json] = [{"message": text} for text in outcome.problems]
    if rejected is not None:
        problems = [each.model_dump(mode="json") for each in rejected.problems]
    return {
        "name": plan.name,
        "file": plan.file,
        "id": outcome.agent_id,
        "action": plan.action,
        "words": [*plan.words],
        "failed": outcome.failed,
        "moment": outcome.moment,
        "changes": [change.model_dump(mode="json") for change in plan.changes],
        "notes": [*plan.notes],
        "problems": problems,
    }
