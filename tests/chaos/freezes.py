"""R13: a process is frozen in the middle of a model call and wakes up as a zombie."""

from __future__ import annotations

import asyncio
import os
import signal
import time

from libs.contracts.agent.conversations import main_conversation
from tests.chaos.dose import Dose
from tests.chaos.oracle import Oracle, Verdict
from tests.chaos.workload import Request, Workload
from tests.chaos.world import Kill, World
from tests.waiting import wait_for

FROZEN_SECONDS = 20.0
SLOW_MS = 2_000
TAKE_OVER_SECONDS_MAX = 15.0
FREEZES_AT_ONCE = 3
SENDING_TRIES_MAX = 20


async def r13_zombies(world: World, dose: Dose) -> Verdict:
    """Freeze whoever drives a slow model call for 20 s; another process must take over, and the
    frozen one, awake again with the model's answer in its hands, must not write."""
    await world.restored(alone=False)
    workload = Workload(world.client(), world.new_name("R13"))
    oracle = await Oracle(world, workload, "R13").begin()
    left = dose.faults
    while left:
        now = min(left, FREEZES_AT_ONCE)
        await freeze_some(world, workload, oracle.verdict, now)
        left -= now
    return await oracle.judge()


async def freeze_some(world: World, workload: Workload, verdict: Verdict, wanted: int) -> None:
    """Freeze so many processes, each in a model call of its own, with one process left over."""
    await world.agents_at_least(wanted + 1)
    frozen: dict[int, tuple[Request, float]] = {}
    sending: list[asyncio.Task[Request]] = []
    try:
        for _ in range(SENDING_TRIES_MAX):
            if len(frozen) == wanted:
                break
            await workload.create_agents(1)
            request = workload.request(workload.agents[-1], tool=True, script=f"SLOW:{SLOW_MS} ")
            sending.append(asyncio.create_task(workload.send(request)))
            await world.model.wait_for_asked(request.text)
            pid = await driver_of(world, request)
            if pid in frozen:
                continue
            os.kill(pid, signal.SIGSTOP)
            world.kills.append(Kill(time.monotonic(), "agent"))
            frozen[pid] = request, time.monotonic()
        takeovers = await asyncio.gather(
            *(taken_over(world, *freeze) for freeze in frozen.values())
        )
        last = max(at for _, at in frozen.values())
        await asyncio.sleep(max(0.0, last + FROZEN_SECONDS - time.monotonic()))
    finally:
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)
    slowest = max(verdict.figures.get("take_over_seconds_max", 0.0), *takeovers)
    verdict.figures["take_over_seconds_max"] = slowest
    verdict.check(len(frozen) == wanted, f"only {len(frozen)} processes drove a slow call")
    verdict.in_time(slowest, TAKE_OVER_SECONDS_MAX, "to take over")
    await asyncio.gather(*sending)
    await settled(world, set(frozen))


async def driver_of(world: World, request: Request) -> int:
    """The process that holds the lease of an agent's conversation."""
    rows = await world.sql(
        f"select holder from agent.leases where key = '{main_conversation(request.agent)}'"
    )
    return world.holders()[rows[0][0]]


async def taken_over(world: World, request: Request, frozen_at: float) -> float:
    """Seconds from the freeze until another process asks the model again."""
    await world.model.wait_for_asked(request.text, times=2, timeout_seconds=FROZEN_SECONDS)
    return time.monotonic() - frozen_at


async def settled(world: World, awake: set[int]) -> None:
    """Wait until the zombies are on the bus again: by then they met their stale leases."""
    await wait_for(
        "the frozen processes are back",
        lambda: awake <= set(world.holders().values()),
        TAKE_OVER_SECONDS_MAX,
    )
