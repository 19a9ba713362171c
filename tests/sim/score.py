"""`make sim-score`: find every planted bug, and write down how many worlds it took."""

from __future__ import annotations

import multiprocessing
import re
from pathlib import Path

import tests.sim.batch_mutants
import tests.sim.file_mutants
import tests.sim.group_mutants
import tests.sim.group_run_mutants
import tests.sim.schedule_mutants
import tests.sim.tool_mutants
import tests.sim.work_mutants  # noqa: F401
from tests.sim.conversation_mutants import ONLY_OF_HISTORIES
from tests.sim.mutants import MUTANTS, planted
from tests.sim.plan import plan_of
from tests.sim.world import run

PAGE = Path(__file__).parents[2] / "docs" / "simulator.md"
BEGIN, END = "<!-- score: begin -->", "<!-- score: end -->"
SEEDS_MAX = 1_000


def seeds_needed(name: str, seeds_max: int = SEEDS_MAX) -> tuple[int | None, str]:
    """How many worlds it takes to find a planted bug, and what gave it away."""
    with planted(name):
        for seed in range(1, seeds_max + 1):
            outcome = run(plan_of(seed))
            if outcome.problems:
                return seed, outcome.problems[0]
    return None, ""


def write_score(seeds_max: int, workers: int) -> int:
    """Look for every mutant; the table goes to the page."""
    names = [name for name in MUTANTS if name not in ONLY_OF_HISTORIES]
    found: dict[str, tuple[int | None, str]] = {}
    with multiprocessing.get_context("fork").Pool(workers, maxtasksperchild=1) as pool:
        jobs = {
            name: pool.apply_async(seeds_needed, (name, min(seeds_max, SEEDS_MAX)))
            for name in names
        }
        for name, job in jobs.items():
            found[name] = job.get()
            needed, why = found[name]
            print(f"{needed or 'MISSED':>6}  {name}: {why[:150]}", flush=True)
    missed = [name for name in names if found[name][0] is None]
    print(f"FOUND_BY = { {name: needed for name, (needed, _) in found.items()} }")
    write_table(table(found))
    print(f"{len(names) - len(missed)} of {len(names)} mutants found")
    return bool(missed)


def table(found: dict[str, tuple[int | None, str]]) -> str:
    """The score as a table."""
    lines = ["| planted bug | found by seed |", "|---|---|"]
    lines += [
        f"| {MUTANTS[name].sentence} (`{name}`) | {needed or 'not found'} |"
        for name, (needed, _) in found.items()
    ]
    return "\n".join(lines)


def found_by() -> dict[str, int]:
    """The seed that found each planted bug when the page was written."""
    rows = re.findall(r"\(`([a-z-]+)`\) \| (\d+) \|", PAGE.read_text())
    return {name: int(seed) for name, seed in rows}


def write_table(text: str) -> None:
    """Put the table where the page has it."""
    page = PAGE.read_text()
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    PAGE.write_text(f"{head}{BEGIN}\n{text}\n{END}{tail}")
