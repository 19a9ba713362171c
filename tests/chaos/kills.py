"""R01 to R05: parts are killed, or lose their disk, while messages are on their way."""

from __future__ import annotations

import asyncio
import math
import signal
import time
from collections.abc import Awaitable, Callable

from tests.chaos.dose import Dose
from tests.chaos.oracle import Oracle, Verdict, begin
from tests.chaos.world import PARTS, SERVICES, Kill, World

PAUSE_SECONDS = (2.0, 3.0)  # between kills
ALL_PAUSE_SECONDS = (3.0, 4.0)  # everything has to start again first
NOTICED_SECONDS_MAX = 60.0
OUTAGE_SECONDS = 1.0
TERMINAL_SECONDS_MAX = 60.0
READY_SECONDS_MAX = 30.0
LASTING_REFUSAL_SECONDS_MAX = 15.0
ADDED_SECONDS_MAX = 15.0
BACKLOG_SECONDS_MAX = 60.0

Fault = Callable[[], Awaitable[None]]


async def under_load(
    world: World, dose: Dose, name: str, fault: Fault, pauses: tuple[float, float]
) -> Oracle:
    """Run W1 for as long as the faults last, one after each pause; the oracle, not asked yet."""
    workload, oracle = await begin(world, name, agents=dose.agents)
    seconds = dose.faults * sum(pauses) / 2
    running = asyncio.create_task(workload.run(dose.messages, seconds, world.random))
    for _ in range(dose.faults):
        await asyncio.sleep(world.random.uniform(*pauses))
        await fault()
    calm_at = time.monotonic()
    await running
    oracle.verdict.figures["backlog_seconds"] = time.monotonic() - calm_at
    oracle.verdict.figures["healthy_seconds"] = await world.healthy()
    latencies = sorted(request.seconds for request in workload.requests)
    oracle.verdict.figures["p50_seconds"] = percentile(latencies, 0.50)
    oracle.verdict.figures["p99_seconds"] = percentile(latencies, 0.99)
    return oracle


def percentile(ordered: list[float], share: float) -> float:
    """The value below which that share of the ordered ones lies."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


async def r01_random_kills(world: World, dose: Dose) -> Verdict:
    """kill -9 of a random service, again and again."""

    async def fault() -> None:
        await world.kill9(world.random.choice(SERVICES))

    oracle = await under_load(world, dose, "R01", fault, PAUSE_SECONDS)
    verdict = await oracle.judge()
    late = verdict.figures["backlog_seconds"]
    verdict.in_time(late, TERMINAL_SECONDS_MAX, "the last run to end after the kills")
    return verdict


async def r02_everything_dies(world: World, dose: Dose) -> Verdict:
    """kill -9 of Postgres, NATS and all services at the same moment."""
    ready: list[float] = []

    async def fault() -> None:
        await world.kill9(*PARTS)
        ready.append(await world.healthy())

    oracle = await under_load(world, dose, "R02", fault, ALL_PAUSE_SECONDS)
    verdict = await oracle.judge()
    verdict.figures["ready_seconds_max"] = max(ready)
    verdict.in_time(max(ready), READY_SECONDS_MAX, "to be ready again")
    return verdict


async def r03_postgres_dies(world: World, dose: Dose) -> Verdict:
    """kill -9 of Postgres."""
    back: list[float] = []

    async def fault() -> None:
        await world.kill9("postgres")
        await world.reachable("postgres")
        back.append(time.monotonic())

    oracle = await under_load(world, dose, "R03", fault, PAUSE_SECONDS)
    verdict = await oracle.judge()
    killed = [kill.at for kill in oracle.kills]
    for up, down in zip(back, [*killed[1:], math.inf], strict=True):
        refused = [
            refusal.at - up
            for refusal in oracle.workload.client.refusals
            if refusal.status >= 500 and up <= refusal.at < down
        ]
        lasted = max(refused, default=0.0)
        verdict.check(
            lasted <= LASTING_REFUSAL_SECONDS_MAX, f"still 5xx {lasted:.0f} s after it was back"
        )
    return verdict


async def r04_nats_dies(world: World, dose: Dose) -> Verdict:
    """kill -9 of NATS."""

    async def fault() -> None:
        await world.kill9("nats")

    oracle = await under_load(world, dose, "R04", fault, PAUSE_SECONDS)
    verdict = await oracle.judge()
    slowest = verdict.figures["p99_seconds"]
    verdict.check(slowest <= ADDED_SECONDS_MAX, f"p99 is {slowest:.1f} s")
    return verdict


async def r05_nats_loses_everything(world: World, dose: Dose) -> Verdict:
    """NATS stopped, its store deleted, NATS started."""

    async def fault() -> None:
        async with world.without("nats", signal.SIGTERM):
            world.wipe_nats()
            await asyncio.sleep(OUTAGE_SECONDS)
        await world.reachable("nats")

    return await backlog_done(await under_load(world, dose, "R05", fault, PAUSE_SECONDS))


async def r05_nats_loses_its_store_and_runs_on(world: World, dose: Dose) -> Verdict:
    """The store deleted under a running NATS, which goes on as if it were there, and stores no
    command any more: its supervisor has to find out."""

    async def fault() -> None:
        before = world.heeler.pid("nats")
        world.wipe_nats()
        world.kills.append(Kill(time.monotonic(), "nats"))
        await asyncio.to_thread(world.heeler.wait_restarted, "nats", before, NOTICED_SECONDS_MAX)
        await world.reachable("nats")

    return await backlog_done(await under_load(world, dose, "R05-RUNNING", fault, PAUSE_SECONDS))


async def backlog_done(oracle: Oracle) -> Verdict:
    """What was found, with how long the backlog took."""
    verdict = await oracle.judge()
    late = verdict.figures["backlog_seconds"]
    verdict.check(late <= BACKLOG_SECONDS_MAX, f"the backlog took {late:.0f} s")
    return verdict
