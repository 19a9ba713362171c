"""python -m benchmarks.tool_permissions: how long it takes to say whether a tool may be called.

The worst case: 5,000 agents have a list, and the organisation, the project and the agent that asks
have the longest ones, on all of which the tool stands.
"""

from __future__ import annotations

import sys
import time
from math import ceil

from libs.contracts.tools.tool_permission_evaluation import (
    CalledTool,
    Caller,
    ToolPolicies,
    compile_list,
    refusal_by_policies,
)
from libs.contracts.tools.tool_permissions import LISTS_OF_ORG_MAX, TOOLS_OF_LIST_MAX

CHECKS = 100_000
P99_MICROSECONDS_MAX = 100.0
ASKED = CalledTool("tool-1", "roll_dice", "custom")
CALLER = Caller("org-1", "project-1", "agent-1")


def worst() -> ToolPolicies:
    """As many lists as there can be, the longest for whoever asks."""
    names = ["roll_dice", *(f"tool_{n}" for n in range(TOOLS_OF_LIST_MAX - 1))]
    long = compile_list(names, ["code"])
    many = {("org-1", "agent", f"agent-{n + 2}"): long for n in range(LISTS_OF_ORG_MAX)}
    scopes = (("organisation", "org-1"), ("project", "project-1"), ("agent", "agent-1"))
    mine = {("org-1", kind, scope_id): long for kind, scope_id in scopes}
    return ToolPolicies(long, {**many, **mine})


def measured() -> tuple[float, float]:
    """The median and the 99th percentile of one check, in microseconds."""
    policies, taken = worst(), []
    for _ in range(CHECKS):
        began = time.perf_counter_ns()
        why = refusal_by_policies(policies, CALLER, ASKED)
        taken.append(time.perf_counter_ns() - began)
        assert not why, why
    taken.sort()
    return taken[CHECKS // 2] / 1e3, taken[ceil(CHECKS * 0.99) - 1] / 1e3


def report() -> bool:
    """Print what a check takes; returns whether that is within its bound."""
    median, p99 = measured()
    within = p99 <= P99_MICROSECONDS_MAX
    verdict = "within" if within else "OVER"
    print(
        f"permission check: p50 {median:.1f} us, p99 {p99:.1f} us,"
        f" {verdict} {P99_MICROSECONDS_MAX:g} us"
    )
    return within


if __name__ == "__main__":
    sys.exit(0 if report() else 1)
