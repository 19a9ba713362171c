"""Make a failing world small: leave out whatever it fails without."""

from __future__ import annotations

from collections.abc import Callable

from tests.sim.plan import Plan
from tests.sim.world import Outcome, run

RUNS_MAX = 150


def shrunk(plan: Plan, again: Callable[[Plan], Outcome] = run) -> tuple[Plan, Outcome]:
    """The smallest plan found that still fails, and what it fails with."""
    outcome = again(plan)
    runs = 1
    size = max(1, len(plan.parts) // 2)
    while size and outcome.problems:
        smaller = False
        for start in range(0, len(plan.parts), size):
            left_out = plan.parts[start : start + size]
            if not left_out or runs >= RUNS_MAX:
                break
            candidate = plan.only([part for part in plan.parts if part not in left_out])
            tried = again(candidate)
            runs += 1
            if tried.problems:
                plan, outcome, smaller = candidate, tried, True
                break
        if runs >= RUNS_MAX:
            break
        if not smaller:
            size = size // 2
    return plan, outcome


def command(plan: Plan, mutant: str = "") -> str:
    """What repeats it."""
    parts = f" --plan {','.join(plan.parts)}" if plan.parts else " --plan nothing"
    planted = f" --mutant {mutant}" if mutant else ""
    return f"python -m tests.sim --seed {plan.seed}{parts}{planted}"
