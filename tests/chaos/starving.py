"""R20: a process runs out of memory, or gets next to nothing of the processor."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack

from tests.chaos.cages import cage, hog, put, slowed
from tests.chaos.dose import Dose
from tests.chaos.kills import percentile
from tests.chaos.network import NetworkWorld
from tests.chaos.oracle import Verdict, begin
from tests.chaos.workload import Workload
from tests.chaos.world import Kill
from tests.waiting import wait_for

MEMORY_MEGABYTES = 256
HOG_MEGABYTES = 300
PROCESSOR_SHARE = 0.05
CI_STARVING_SECONDS = 12.0
KILLED_SECONDS_MAX = 30.0
BACK_SECONDS_MAX = 30.0
MESSAGES_PER_SECOND = 6.0
READ_PAUSE_SECONDS = 0.1
READ_SECONDS_P99_MAX = 5.0
NO_GROUPS = (
    "R20: memory control groups cannot be made here, so no process was killed for memory "
    "(R01 kills with the same signal)"
)


async def r20_starving(world: NetworkWorld, dose: Dose) -> Verdict:
    """One process of each worker in turn is killed by the kernel at 256 MB; then an agent and a
    memory process live on 5 % of a processor for a while. The others serve meanwhile."""
    workload, oracle = await begin(world, "R20", agents=dose.agents)
    verdict = oracle.verdict
    running = asyncio.create_task(
        workload.run(dose.messages, dose.messages / MESSAGES_PER_SECOND, world.random)
    )
    workers = [part for part in world.services if not part.startswith("api")]
    for number in range(dose.faults):
        await out_of_memory(world, verdict, workers[number % len(workers)])
    await out_of_processor(world, workload, verdict, CI_STARVING_SECONDS * dose.faults / 2)
    await running
    await world.healthy()
    return await oracle.judge()


async def out_of_memory(world: NetworkWorld, verdict: Verdict, part: str) -> None:
    """Let a process share 256 MB with somebody greedy, until the kernel kills it."""
    pid = await world.pid(part)
    with cage("memory", {"limit_in_bytes": MEMORY_MEGABYTES << 20}) as folder:
        if folder is None:
            if NO_GROUPS not in verdict.skipped:
                verdict.skipped.append(NO_GROUPS)
            return
        put(folder, pid)
        with hog(folder, HOG_MEGABYTES, victim=pid):
            await wait_for(
                f"{part} is killed for memory",
                lambda: not running(world, part, pid),
                KILLED_SECONDS_MAX,
            )
        world.kills.append(Kill(time.monotonic(), part))
    began = time.monotonic()
    await wait_for(f"{part} is back", lambda: running(world, part), BACK_SECONDS_MAX)
    await world.pid(part)
    figures = verdict.figures
    figures["killed_for_memory"] = figures.get("killed_for_memory", 0) + 1
    figures["back_seconds_max"] = max(
        figures.get("back_seconds_max", 0.0), time.monotonic() - began
    )


def running(world: NetworkWorld, part: str, pid: int | None = None) -> bool:
    """Whether a part runs; with a pid, as that process."""
    process = world.running(part)
    return process is not None and pid in (None, process.pid)


async def out_of_processor(
    world: NetworkWorld, workload: Workload, verdict: Verdict, seconds: float
) -> None:
    """One process of each worker crawls for so long, and is not in the way of those who read."""
    began = time.monotonic()
    parts = ("agent", "memory")
    async with AsyncExitStack() as stack:
        for part in parts:
            how = await stack.enter_async_context(slowed(await world.pid(part), PROCESSOR_SHARE))
            verdict.figures[f"{part} slowed by {how}"] = PROCESSOR_SHARE
        reads = await read_on(world, workload, began + seconds)
    for part in parts:
        world.kills.append(Kill(began, part, until=time.monotonic()))
    slowest = percentile(sorted(reads), 0.99)
    verdict.figures |= {"reads": len(reads), "read_seconds_p99": slowest}
    verdict.in_time(slowest, READ_SECONDS_P99_MAX, "reads meanwhile")


async def read_on(world: NetworkWorld, workload: Workload, until: float) -> list[float]:
    """Read agents all the time; how long each read took."""
    client, seconds = world.client(), []
    while time.monotonic() < until:
        began = time.monotonic()
        await client.get(f"/v1/agents/{world.random.choice(workload.agents)}")
        seconds.append(time.monotonic() - began)
        await asyncio.sleep(READ_PAUSE_SECONDS)
    return seconds
