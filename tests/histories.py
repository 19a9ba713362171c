"""`make histories`: run random histories of conversations, and count what happened in them.

Some are those of the state machine in `tests/unit/agent/conversation_histories.py`, others
are simulated worlds. In each one every context is shown to strict validators of OpenAI's and of
Anthropic's requests, and in the end every conversation is asked once more.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterator
from traceback import format_exception

import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis.stateful import run_state_machine_as_test

from tests.sim.__main__ import frozen
from tests.sim.conversation_mutants import OF_HISTORIES
from tests.sim.mutants import planted
from tests.sim.plan import plan_of
from tests.sim.world import run
from tests.unit.agent.conversation_histories import HAPPENED, STEPS, Histories

WORKERS = 2
WORLDS_SHARE = 0.3
CHUNK_HISTORIES, CHUNK_WORLDS = 50, 10
TOLD_EVERY_SECONDS = 10.0
LINES_SHOWN_MAX = 60
REFUSED = ("context is refused", "validator.check", "unpaired", "whole steps")
BLOCKED = ("blocked", "never answered", "at rest")

type Job = tuple[str, int, int]
type Found = tuple[Counter[str], list[str]]


def main() -> int:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.histories", description=__doc__)
    parser.add_argument("--histories", type=int, default=10_000, help="how many, of both kinds")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--workers", type=int, default=WORKERS)
    parser.add_argument("--only", choices=["machine", "worlds"], help="one kind of histories")
    parser.add_argument("--mutant", default="", choices=["", *OF_HISTORIES], help="plant this bug")
    asked = parser.parse_args()
    began = time.monotonic()
    with planted(asked.mutant):
        happened, failures = many(jobs(asked.histories, asked.first, asked.only), asked.workers)
    print(report(happened, failures, time.monotonic() - began))
    return bool(failures)


def jobs(histories: int, first: int, only: str | None) -> list[Job]:
    """What is to be run: histories of the machine and worlds, mixed; each begins with a seed."""
    worlds = {"machine": 0, "worlds": histories}.get(only or "", int(histories * WORLDS_SHARE))
    parts = [
        *chunks("machine", histories - worlds, first, CHUNK_HISTORIES),
        *chunks("worlds", worlds, first, CHUNK_WORLDS),
    ]
    return sorted(parts, key=lambda job: (job[1], job[0]))


def chunks(kind: str, count: int, first: int, size: int) -> Iterator[Job]:
    """So many histories in parts."""
    for start in range(0, count, size):
        yield kind, first + start, min(size, count - start)


def many(parts: list[Job], workers: int) -> Found:
    """What happened in all of them, and which failed."""
    happened: Counter[str] = Counter()
    failures: list[str] = []
    told = time.monotonic()
    with multiprocessing.get_context("fork").Pool(workers, frozen) as pool:
        for counted, failed in pool.imap_unordered(histories_of, parts):
            happened += counted
            failures += failed
            for failure in failed:
                print(failure, file=sys.stderr, flush=True)
            if time.monotonic() - told > TOLD_EVERY_SECONDS:
                told = time.monotonic()
                done = f"{happened['histories']:,} histories, {len(failures)} failed"
                print(done, file=sys.stderr, flush=True)
    return happened, failures


def histories_of(job: Job) -> Found:
    """In a worker: one part."""
    kind, first, count = job
    return of_machine(first, count) if kind == "machine" else of_worlds(first, count)


def of_machine(seed: int, count: int, *, small: bool = True) -> Found:
    """Histories of the state machine; each seed gives the same ones. One that fails is made
    `small`."""
    HAPPENED.clear()
    failures: list[str] = []
    seeded = hypothesis.seed(seed)(type("Histories", (Histories,), {}))
    how = hypothesis.settings(
        max_examples=count,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        phases=[Phase.generate, Phase.shrink] if small else [Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            run_state_machine_as_test(seeded, settings=how)
    except Exception as problem:
        lines = "".join(format_exception(problem)).splitlines()[-LINES_SHOWN_MAX:]
        again = f"python -m tests.histories --only machine --first {seed} --histories {count}"
        what = f"{type(problem).__name__}: {problem}"  # its notes may fill all lines
        failures.append("\n".join([what, *lines, f"  again: {again}"]))
    return Counter(HAPPENED), failures


def of_worlds(first: int, count: int) -> Found:
    """Simulated worlds."""
    happened: Counter[str] = Counter(histories=count, worlds=count)
    failures: list[str] = []
    for seed in range(first, first + count):
        outcome = run(plan_of(seed))
        happened += outcome.did
        if outcome.problems:
            again = f"python -m tests.sim --seed {seed} --shrink"
            failures.append("\n".join([*outcome.problems[:20], f"  again: {again}"]))
    frozen()
    return happened, failures


def report(happened: Counter[str], failures: list[str], seconds: float) -> str:
    """The verdict, and what happened how often."""
    refused = sum(any(words in failure for words in REFUSED) for failure in failures)
    blocked = sum(any(words in failure for words in BLOCKED) for failure in failures)
    worlds, histories = happened.pop("worlds", 0), happened.pop("histories", 0)
    counts = ", ".join(f"{count:,} {name}" for name, count in sorted(happened.items()))
    return (
        f"{histories:,} histories ({histories - worlds:,} of the state machine, {worlds:,} "
        f"simulated worlds): {refused} refused contexts, {blocked} blocked conversations, "
        f"{len(failures)} failed, {seconds:.0f} s\n{counts}"
    )


if __name__ == "__main__":
    sys.exit(main())
