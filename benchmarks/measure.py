"""Drive one row: warm up, size what it needs, measure, count."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from dataclasses import dataclass, field

from benchmarks.agents import NoFreshAgent
from benchmarks.client import Connection, Origin
from benchmarks.cpu import CpuMeter
from benchmarks.rows import Kind, Operate, Outcome

WARM_UP_SHARE = 0.1
WARM_UP_OPERATIONS = 640  # for which agents are made; it ends earlier without them
SPARE_FACTOR = 2.0  # the first operations are slow, so more are to be expected
ANSWER_SECONDS_MAX = 120.0
RECONNECT_SECONDS = 0.05


@dataclass(kw_only=True)
class Figures:
    """What a row showed. Times, rates and CPU are those of the operations that succeeded."""

    row: str
    what: str
    concurrency: int
    problem: str = ""  # why it was skipped, or failed
    seconds: float = 0.0
    operations: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    per_second: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    max_ms: float | None = None
    cpu_ms: float | None = None
    cpu_ms_by_process: dict[str, float] = field(default_factory=dict)
    client_cpu_ms: float | None = None
    client_share_of_a_core: float = 0.0


@dataclass(frozen=True)
class Phase:
    """All operations of all workers, and how long it took until the last one ended."""

    outcomes: list[Outcome]
    seconds: float


async def measure(
    figures: Figures, kind: Kind, origin: Origin, *, seconds: float, meter: CpuMeter | None
) -> None:
    """Fill in the figures of one row."""
    workers = figures.concurrency
    await kind.prepare(workers, WARM_UP_OPERATIONS)
    team = [(kind.worker(), Connection(origin)) for _ in range(workers)]
    try:
        warm = await drive(team, seconds * WARM_UP_SHARE)
        rate = len(warm.outcomes) / warm.seconds if warm.seconds else 0.0
        await kind.prepare(workers, math.ceil(rate * seconds * SPARE_FACTOR))
        before = await quiet_reading(meter)
        client_before = time.process_time()
        phase = await drive(team, seconds)
        client_used = time.process_time() - client_before
        after = await quiet_reading(meter)
    finally:
        for _, connection in team:
            connection.close()
    count_outcomes(figures, phase)
    count_cpu(figures, before, after)
    figures.client_share_of_a_core = client_used / phase.seconds
    if figures.operations:
        figures.client_cpu_ms = client_used * 1000 / figures.operations


async def drive(team: list[tuple[Operate, Connection]], seconds: float) -> Phase:
    """Let every worker operate, one operation after the other, until the time is up.

    What was begun is waited for and counted, so that a slow server cannot hide its slowest.
    """
    outcomes: list[Outcome] = []
    for _, connection in team:
        await try_open(connection)
    started = time.perf_counter()
    tasks = [
        asyncio.create_task(work(operate, connection, started + seconds, outcomes))
        for operate, connection in team
    ]
    _, late = await asyncio.wait(tasks, timeout=seconds + ANSWER_SECONDS_MAX)
    elapsed = time.perf_counter() - started
    for task in late:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, asyncio.CancelledError):
            outcomes.append(Outcome(elapsed, "timeout"))
        elif isinstance(result, BaseException):
            raise result
    return Phase(outcomes, elapsed)


async def try_open(connection: Connection) -> None:
    """Connect before the clock starts; a refusal shows again, and counts, in the first request."""
    with contextlib.suppress(OSError):
        await connection.open()


async def work(
    operate: Operate, connection: Connection, deadline: float, outcomes: list[Outcome]
) -> None:
    while True:
        try:
            outcomes.append(await operate(connection))
        except NoFreshAgent:
            return
        except OSError as problem:
            outcomes.append(Outcome(0.0, type(problem).__name__))
            await asyncio.sleep(RECONNECT_SECONDS)
        if time.perf_counter() >= deadline:
            return


async def quiet_reading(meter: CpuMeter | None) -> dict[str, float]:
    """CPU seconds when the servers are done with what they put off, too."""
    if meter is None:
        return {}
    await meter.wait_quiet()
    return meter.read()


def count_outcomes(figures: Figures, phase: Phase) -> None:
    """Rates, times and errors."""
    for each in phase.outcomes:
        if each.problem:
            figures.errors[each.problem] = figures.errors.get(each.problem, 0) + 1
    taken = sorted(each.seconds * 1000 for each in phase.outcomes if not each.problem)
    figures.seconds, figures.operations = phase.seconds, len(taken)
    if taken:
        figures.per_second = len(taken) / phase.seconds
        figures.p50_ms, figures.p99_ms = percentile(taken, 50), percentile(taken, 99)
        figures.max_ms = taken[-1]


def count_cpu(figures: Figures, before: dict[str, float], after: dict[str, float]) -> None:
    """CPU per operation: in all, and by process."""
    if not after or not figures.operations:
        return
    used = {name: after[name] - before.get(name, 0.0) for name in after}
    figures.cpu_ms_by_process = {
        name: seconds * 1000 / figures.operations for name, seconds in used.items()
    }
    figures.cpu_ms = sum(figures.cpu_ms_by_process.values())


def percentile(ascending: list[float], percent: float) -> float:
    """The smallest value that so many percent of the values do not exceed (nearest rank)."""
    return ascending[max(0, math.ceil(len(ascending) * percent / 100) - 1)]
