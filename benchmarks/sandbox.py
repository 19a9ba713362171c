"""python -m benchmarks.sandbox: how long a call of a tool takes in the sandbox of processes.

Warm: the sandbox was started ahead. Cold: it is started for the call. Both until nothing of it runs
any more; the code is a function that gives back its argument.
"""

from __future__ import annotations

import argparse
import sys
import time
from math import ceil

import uvloop

from services.tools.adapters.process_sandbox import ProcessSandbox
from services.tools.sandbox.ports import Program
from tests.waiting import wait_for

CALLS = 200
WARM_P99_MS_MAX = 50.0
COLD_P99_MS_MAX = 150.0
ECHO = Program("python", "def echo(text):\n    return text", "echo", {"text": "hello"})
FULL_SECONDS_MAX = 5.0


def percentile(values: list[float], share: float) -> float:
    """The value that so large a share of them does not exceed."""
    return sorted(values)[ceil(len(values) * share) - 1]


async def call(sandbox: ProcessSandbox) -> float:
    """Milliseconds of one call."""
    began = time.perf_counter()
    outcome = await sandbox.run(ECHO)
    assert outcome.value == "hello", outcome
    return (time.perf_counter() - began) * 1e3


async def full(sandbox: ProcessSandbox) -> None:
    """Until as many wait as are kept in any case."""
    pool = sandbox.pool
    assert pool is not None
    await wait_for("idle sandboxes", lambda: len(pool.idle) >= pool.idle_min, FULL_SECONDS_MAX)


async def measured(calls: int, *, warm: bool) -> list[float]:
    """Milliseconds of so many calls, one after another."""
    sandbox = ProcessSandbox(idle_min=2 if warm else 0, idle_max=10 if warm else 0)
    await sandbox.start()
    try:
        if sandbox.refusal:
            raise SystemExit(sandbox.refusal)
        taken = []
        for _ in range(calls):
            await full(sandbox)
            taken.append(await call(sandbox))
        return taken
    finally:
        await sandbox.close()


async def run(calls: int) -> int:
    """Print both rows; 1 if one is slower than it may be."""
    missed = 0
    print(f"{'row':<14}{'calls':>6}{'p50 ms':>9}{'p99 ms':>9}{'max ms':>9}  target")
    for name, warm, bound in (
        ("sandbox-warm", True, WARM_P99_MS_MAX),
        ("sandbox-cold", False, COLD_P99_MS_MAX),
    ):
        taken = await measured(calls, warm=warm)
        p50, p99 = percentile(taken, 0.5), percentile(taken, 0.99)
        verdict = "ok" if p99 <= bound else "MISSED"
        missed += verdict != "ok"
        figures = f"{len(taken):>6}{p50:>9.1f}{p99:>9.1f}{max(taken):>9.1f}"
        print(f"{name:<14}{figures}  p99 <= {bound:g} ms {verdict}")
    return 1 if missed else 0


def main() -> int:
    """Measure as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sandbox", description=__doc__)
    parser.add_argument("--calls", type=int, default=CALLS, help="of each row")
    return uvloop.run(run(parser.parse_args().calls))


if __name__ == "__main__":
    sys.exit(main())
