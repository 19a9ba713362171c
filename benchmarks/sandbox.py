"""python -m benchmarks.sandbox: how long a call of a tool takes in the sandbox.

Warm: the sandbox was started ahead. Cold: it is started for the call. Both until nothing of it runs
any more; the code is a function that gives back its argument. With an image the sandbox is one of
containers, where an engine answers.
"""

from __future__ import annotations

import argparse
import sys
import time
from math import ceil

import uvloop

from services.tools.adapters.base_sandbox import BaseSandbox
from services.tools.adapters.container_sandbox import ContainerSandbox
from services.tools.adapters.process_sandbox import ProcessSandbox
from services.tools.sandbox.ports import Program
from tests.waiting import wait_for

CALLS = 200
WARM_P99_MS_MAX = 50.0
COLD_P99_MS_MAX = 150.0
ECHO = Program("python", "def echo(text):\n    return text", "echo", {"text": "hello"})
FULL_SECONDS_MAX = 30.0


def percentile(values: list[float], share: float) -> float:
    """The value that so large a share of them does not exceed."""
    return sorted(values)[ceil(len(values) * share) - 1]


async def call(sandbox: BaseSandbox) -> float:
    """Milliseconds of one call."""
    began = time.perf_counter()
    outcome = await sandbox.run(ECHO)
    assert outcome.value == "hello", outcome
    return (time.perf_counter() - began) * 1e3


async def full(sandbox: BaseSandbox) -> None:
    """Until as many wait as are kept in any case."""
    pool = sandbox.pool
    assert pool is not None
    await wait_for("idle sandboxes", lambda: len(pool.idle) >= pool.idle_min, FULL_SECONDS_MAX)


def made(image: str, *, warm: bool) -> BaseSandbox:
    """A sandbox that is to be measured."""
    idle_min, idle_max = (2, 10) if warm else (0, 0)
    if image:
        return ContainerSandbox(image, idle_min=idle_min, idle_max=idle_max)
    return ProcessSandbox(idle_min=idle_min, idle_max=idle_max)


async def measured(calls: int, image: str, *, warm: bool) -> list[float]:
    """Milliseconds of so many calls, one after another."""
    sandbox = made(image, warm=warm)
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


async def run(calls: int, image: str) -> int:
    """Print both rows; 1 if one is slower than it may be. Containers have no targets."""
    missed = 0
    print(f"{'row':<14}{'calls':>6}{'p50 ms':>9}{'p99 ms':>9}{'max ms':>9}  target")
    for name, warm, bound in (
        ("sandbox-warm", True, WARM_P99_MS_MAX),
        ("sandbox-cold", False, COLD_P99_MS_MAX),
    ):
        taken = await measured(calls, image, warm=warm)
        p50, p99 = percentile(taken, 0.5), percentile(taken, 0.99)
        figures = f"{len(taken):>6}{p50:>9.1f}{p99:>9.1f}{max(taken):>9.1f}"
        if image:
            print(f"{name:<14}{figures}  none, of {image}")
            continue
        verdict = "ok" if p99 <= bound else "MISSED"
        missed += verdict != "ok"
        print(f"{name:<14}{figures}  p99 <= {bound:g} ms {verdict}")
    return 1 if missed else 0


def main() -> int:
    """Measure as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sandbox", description=__doc__)
    parser.add_argument("--calls", type=int, default=CALLS, help="of each row")
    parser.add_argument("--image", default="", help="of containers; without it: processes")
    asked = parser.parse_args()
    return uvloop.run(run(asked.calls, asked.image))


if __name__ == "__main__":
    sys.exit(main())
