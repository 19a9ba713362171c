"""The figures as a table for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.agents import RunFailed
from benchmarks.measure import Figures
from benchmarks.rows import MESSAGES_PER_AGENT_MAX
from benchmarks.targets import Judgement, judge

BUSY_SHARE = 0.5
COLUMNS = ("row", "ops", "errors", "per s", "p50 ms", "p99 ms", "max ms", "CPU ms", "client")
WIDTHS = (12, 7, 7, 8, 8, 8, 8, 8, 8)
ABOUT = f"""\
CPU ms: of all server processes, for each operation that succeeded. client: CPU ms of this
driver for each; ! where it was busy over {BUSY_SHARE:.0%} of the time and may limit the rate.
Workers have agents of their own and take a fresh one after {MESSAGES_PER_AGENT_MAX} messages,
so contexts stay short. A warm-up of a tenth of its time precedes each row and is not counted."""


def heading(server: str, seconds: float) -> str:
    """What stands above the table."""
    return f"{server}, {seconds:g} s for each row\n{ABOUT}\n\n{cells(COLUMNS)}  targets"


def line(figures: Figures, judgements: list[Judgement]) -> str:
    """One row of the table, and a line below it for its errors."""
    if figures.problem:
        return f"{figures.row:<12} {figures.problem}"
    busy = figures.client_share_of_a_core > BUSY_SHARE
    texts = (
        figures.row,
        str(figures.operations),
        str(sum(figures.errors.values())),
        number(figures.per_second),
        number(figures.p50_ms),
        number(figures.p99_ms),
        number(figures.max_ms),
        number(figures.cpu_ms),
        ("!" if busy else "") + number(figures.client_cpu_ms),
    )
    text = f"{cells(texts)}  {'; '.join(map(judged, judgements))}".rstrip()
    if figures.errors:
        text += "\n" + " " * 13 + "errors: "
        text += ", ".join(f"{count} x {name}" for name, count in sorted(figures.errors.items()))
    return text


def cells(texts: tuple[str, ...]) -> str:
    first, *others = zip(texts, WIDTHS, strict=True)
    return f"{first[0]:<{first[1]}}" + "".join(f"{text:>{width}}" for text, width in others)


def number(value: float | None) -> str:
    """Three digits that matter."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def judged(judgement: Judgement) -> str:
    """Such as `p50 <= 8 ms ok`, `goal >= 45x per s MISSED (31.2x)`."""
    target = judgement.target
    text = f"{'goal ' if target.goal else ''}{target.text()} {judgement.verdict}"
    return f"{text} ({number(judgement.value)}x)" if target.times else text


def document(
    about: Mapping[str, Any], rows: list[Figures], reference: Mapping[str, float]
) -> dict[str, Any]:
    """The whole run as it goes into the JSON file."""
    described = []
    for figures in rows:
        targets = [
            {"target": each.target.text(), "goal": each.target.goal, "verdict": each.verdict}
            for each in judge(figures, reference)
        ]
        described.append({**asdict(figures), "targets": targets})
    return {**about, "rows": described}


def read_reference(path: Path) -> dict[str, float]:
    """Operations per second by row, from the JSON file of an earlier run."""
    try:
        rows = json.loads(path.read_text())["rows"]
        return {each["row"]: each["per_second"] for each in rows if each["per_second"]}
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise RunFailed(f"{path} is not the --json file of an earlier run: {problem}") from problem
