"""What each figure ought to be: the bound for now, and the goal after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from benchmarks.measure import Figures

MESSAGE_ROWS = ("message-1", "message-8", "message-64", "message-256")
UNITS = {"p50_ms": ("p50", " ms"), "p99_ms": ("p99", " ms"), "cpu_ms": ("CPU", " ms")}


@dataclass(frozen=True, slots=True)
class Target:
    """A bound on one figure of one row; `times` compares with another server's figure."""

    row: str
    figure: Literal["p50_ms", "p99_ms", "per_second", "cpu_ms", "errors"]
    sign: Literal["<=", ">="]
    bound: float
    times: bool = False
    goal: bool = False

    def verdict(self, value: float | None) -> str:
        """ok, MISSED, or that there is nothing to judge."""
        if value is None:
            return "not measured"
        met = value <= self.bound if self.sign == "<=" else value >= self.bound
        return "ok" if met else "MISSED"

    def text(self) -> str:
        """Such as `p50 <= 8 ms`."""
        if self.figure == "per_second":
            return f"{self.sign} {self.bound:g}{'x per s' if self.times else '/s'}"
        name, unit = UNITS.get(self.figure, (self.figure, ""))
        return f"{name} {self.sign} {self.bound:g}{unit}"


TARGETS = (
    Target("message-1", "p50_ms", "<=", 8),
    Target("message-8", "cpu_ms", "<=", 6),
    Target("message-64", "cpu_ms", "<=", 6),
    Target("message-64", "per_second", ">=", 250),
    *(Target(row, "errors", "<=", 0) for row in MESSAGE_ROWS),
    Target("stream-1", "p50_ms", "<=", 6),
    Target("get-1", "p50_ms", "<=", 1),
    Target("list-1", "p50_ms", "<=", 3),
    Target("message-1", "p50_ms", "<=", 5, goal=True),
    Target("message-1", "p99_ms", "<=", 15, goal=True),
    Target("message-8", "cpu_ms", "<=", 4, goal=True),
    Target("message-8", "per_second", ">=", 45, times=True, goal=True),
    Target("message-64", "per_second", ">=", 45, times=True, goal=True),
    Target("message-256", "p99_ms", "<=", 1_500, goal=True),
    Target("stream-1", "p50_ms", "<=", 4, goal=True),
    Target("create-1", "p50_ms", "<=", 4, goal=True),
    Target("create-1", "per_second", ">=", 15, times=True, goal=True),
    Target("create-8", "per_second", ">=", 15, times=True, goal=True),
    Target("get-1", "p50_ms", "<=", 0.6, goal=True),
    Target("get-1", "per_second", ">=", 12, times=True, goal=True),
    Target("get-8", "per_second", ">=", 12, times=True, goal=True),
    Target("list-1", "p50_ms", "<=", 2, goal=True),
    Target("list-1", "per_second", ">=", 20, times=True, goal=True),
    Target("list-8", "per_second", ">=", 20, times=True, goal=True),
    Target("insert-8", "per_second", ">=", 20, times=True, goal=True),
    Target("search-1", "p50_ms", "<=", 6, goal=True),
    Target("search-1", "per_second", ">=", 20, times=True, goal=True),
    Target("search-8", "per_second", ">=", 20, times=True, goal=True),
)


@dataclass(frozen=True, slots=True)
class Judgement:
    """One target and how the row did."""

    target: Target
    value: float | None
    verdict: str


def judge(figures: Figures, reference: Mapping[str, float]) -> list[Judgement]:
    """All targets of a row. `reference` holds another server's operations per second by row."""
    judgements = []
    for target in TARGETS:
        if target.row != figures.row or (target.times and target.row not in reference):
            continue
        value = figure(figures, target)
        if target.times and value is not None:
            value /= reference[target.row]
        judgements.append(Judgement(target, value, target.verdict(value)))
    return judgements


def figure(figures: Figures, target: Target) -> float | None:
    """The value that a target speaks of."""
    if target.figure == "errors":
        answered = figures.operations or figures.errors
        return float(sum(figures.errors.values())) if answered else None
    value: float | None = getattr(figures, target.figure)
    return value
