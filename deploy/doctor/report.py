"""Report of the doctor: a line for each finding, with the fix below what is wrong; or JSON."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable

from deploy.doctor.examination import CHECKS, Result, examine
from deploy.doctor.examined import Examined
from deploy.doctor.findings import State
from deploy.plain_tables import GREEN, RED, YELLOW, colour_text

COLOURS = {State.OK: GREEN, State.WARNING: YELLOW, State.PROBLEM: RED}
NAME_WIDTH = max(map(len, CHECKS)) + 2
STATE_WIDTH = max(map(len, State)) + 2


def doctor(
    examined: Examined, chosen: Collection[str] = (), *, as_json: bool = False, quiet: bool = False
) -> int:
    """Make the checks and print what they found; 1 if there is a problem, else 0."""
    results = examine(examined, chosen)
    if as_json:
        made = list(results)
        print(json.dumps(document(examined, made), indent=2, ensure_ascii=False))
    else:
        made = []
        for result in results:
            made.append(result)
            _print(result, quiet=quiet)
        _print_sum(made)
    return 1 if any(result.is_problem for result in made) else 0


def document(examined: Examined, results: Iterable[Result]) -> dict[str, object]:
    """The report as JSON: the same fields in every release."""
    results = list(results)
    checks = [
        {
            "name": result.check,
            "state": finding.state.value,
            "message": finding.message,
            "fix": finding.fix or None,
        }
        for result in results
        for finding in result.findings
    ]
    return {
        "home": str(examined.home),
        "healthy": not any(result.is_problem for result in results),
        "problems": sum(check["state"] == State.PROBLEM for check in checks),
        "warnings": sum(check["state"] == State.WARNING for check in checks),
        "checks": checks,
    }


def _print(result: Result, *, quiet: bool) -> None:
    for finding in result.findings:
        if quiet and finding.state in (State.OK, State.SKIPPED):
            continue
        state = colour_text(finding.state.ljust(STATE_WIDTH), COLOURS.get(finding.state))
        message = " ".join(finding.message.split())
        print(f"{result.check.ljust(NAME_WIDTH)}{state}{message}", flush=True)
        if finding.fix:
            print(f"{'':{NAME_WIDTH + STATE_WIDTH}}fix: {finding.fix}", flush=True)


def _print_sum(results: list[Result]) -> None:
    states = [finding.state for result in results for finding in result.findings]
    problems, warnings = states.count(State.PROBLEM), states.count(State.WARNING)
    counts = f"{problems} problems, {warnings} warnings" if problems or warnings else "All is well"
    print(f"{counts}.")
