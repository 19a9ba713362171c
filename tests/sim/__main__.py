"""`make sim`: run many worlds. `python -m tests.sim --seed N` runs one, and says everything."""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterator

from tests.sim.mutants import MUTANTS, planted
from tests.sim.plan import WORLDS_WITH, Plan, plan_of
from tests.sim.score import write_score
from tests.sim.shrink import command, shrunk
from tests.sim.world import Outcome, run

WORKERS = 2
FAILURES_SHOWN_MAX = 5
COLLECTED_EVERY = 20


def main() -> int:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2_000, help="how many worlds")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--with", dest="kind", choices=WORLDS_WITH, help="such worlds alone")
    parser.add_argument("--workers", type=int, default=WORKERS)
    parser.add_argument("--seed", type=int, help="run this one world and show it")
    parser.add_argument("--plan", help="the parts of the world to keep, e.g. f1,m3")
    parser.add_argument("--mutant", default="", choices=["", *MUTANTS], help="plant this bug")
    parser.add_argument("--shrink", action="store_true", help="make the one world small")
    parser.add_argument("--score", action="store_true", help="find every mutant, write the table")
    asked = parser.parse_args()
    if asked.score:
        return write_score(asked.seeds, asked.workers)
    with planted(asked.mutant):
        if asked.seed is not None:
            return show(asked.seed, asked.plan, shrink=asked.shrink, mutant=asked.mutant)
        return run_many(seeds_asked(asked.first, asked.seeds, asked.kind), asked.workers)


def seeds_asked(first: int, count: int, kind: str | None) -> range:
    """So many seeds, or so many of worlds of one kind."""
    place, every = WORLDS_WITH[kind] if kind else (first, 1)
    first += (place - first) % every
    return range(first, first + count * every, every)


def show(seed: int, parts: str | None, *, shrink: bool, mutant: str) -> int:
    """One world with everything that is known about it."""
    plan = plan_of(seed)
    if parts is not None:
        plan = plan.only(parts.split(","))
    if shrink:
        plan, outcome = shrunk(plan)
    else:
        outcome = run(plan)
    print(report(plan, outcome, mutant))
    return bool(outcome.problems)


def report(plan: Plan, outcome: Outcome, mutant: str = "") -> str:
    """What happened in a world, and how to see it again."""
    verdict = "FAILED" if outcome.problems else "passed"
    lines = [
        f"seed {plan.seed} {verdict}: {outcome.seconds:.1f} s of virtual time, "
        f"{outcome.steps} steps, trace {outcome.trace}",
        plan.story(),
        *(f"  ! {problem}" for problem in outcome.problems[:20]),
        f"  faults: {dict(sorted(outcome.happened.items()))}",
        f"  again: {command(plan, mutant)}",
    ]
    return "\n".join(lines)


def run_many(seeds: range, workers: int) -> int:
    """Many worlds; the first failures are made small."""
    began = time.monotonic()
    failed: list[int] = []
    happened: Counter[str] = Counter()
    steps, virtual = 0, 0.0
    for count, outcome in enumerate(outcomes(seeds, workers), start=1):
        happened += outcome.happened
        steps, virtual = steps + outcome.steps, virtual + outcome.seconds
        if outcome.problems:
            failed.append(outcome.seed)
        if sys.stdout.isatty() or count % 500 == 0:
            print(f"\r{count} of {len(seeds)} worlds, {len(failed)} failed", end="", flush=True)
    seconds = time.monotonic() - began
    print(
        f"\r{len(seeds)} worlds in {seconds:.0f} s: {virtual / 3600:.1f} hours of virtual time, "
        f"{steps} steps, {sum(happened.values())} faults"
    )
    for seed in sorted(failed)[:FAILURES_SHOWN_MAX]:
        print(report(*shrunk(plan_of(seed))))
    print(f"{len(failed)} failed {sorted(failed)[:50]}" if failed else "0 failed")
    return bool(failed)


def outcomes(seeds: range, workers: int) -> Iterator[Outcome]:
    """The outcomes of worlds as they are done."""
    with multiprocessing.get_context("fork").Pool(workers, frozen) as pool:
        yield from pool.imap_unordered(run_seed, seeds, chunksize=5)


def frozen() -> None:
    """In a worker: what is imported is never garbage."""
    gc.collect()
    gc.freeze()


def run_seed(seed: int) -> Outcome:
    """In a worker: one world. The collector is off while it runs, so it must run between."""
    if seed % COLLECTED_EVERY == 0:
        gc.collect()
    return run(plan_of(seed))


if __name__ == "__main__":
    sys.exit(main())
