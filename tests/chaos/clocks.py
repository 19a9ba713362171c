"""R19: the clocks of the services disagree, and jump by two hours, with the turns under way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from deploy.embedded.settings import service_of
from tests.chaos.dose import Dose
from tests.chaos.network import NetworkWorld
from tests.chaos.oracle import Oracle, Verdict
from tests.chaos.workload import Workload

LIBRARIES = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib/faketime/libfaketimeMT.so.1")
MISSING = "R19 needs libfaketime (on Debian: apt install faketime); no clock was touched"
JUMPS_HOURS = (2, -2)
# Two processes of one service never have the same time.
SKEWS_SECONDS = {
    "agent": 300,
    "agent-2": -300,
    "memory": -300,
    "memory-2": 0,
    "tools": 300,
    "tools-2": 0,
    "scheduler": 300,
    "scheduler-2": -300,
    "groups": -300,
    "groups-2": 0,
    "api": 0,
    "api-2": 300,
}
JUMP_PAUSE_SECONDS = (2.0, 3.0)
RESTARTED_SECONDS_MAX = 60.0
LONG_TURNS = 4
LONG_MS = 8_000


def library() -> Path | None:
    """libfaketime, if this machine has it."""
    found = (path for pattern in LIBRARIES for path in Path("/").glob(pattern[1:]))
    return next(found, None)


async def r19_clocks_jump(world: NetworkWorld, dose: Dose) -> Verdict:
    """Skew all clocks by minutes, then let one after the other jump by hours and back.

    Nothing dies here, so no lease may be lost: the oracle finds every step that is asked twice.
    """
    faketime = await asyncio.to_thread(library)
    if faketime is None:
        verdict = Verdict("R19")
        verdict.skipped.append(MISSING)
        return verdict
    await world.restored()
    async with own_clocks(world, faketime):
        workload = Workload(world.client(), world.new_name("R19"))
        await workload.create_agents(dose.agents)
        oracle = await Oracle(world, workload, "R19").begin()
        takeovers = taken_over(world)
        spread = dose.faults * sum(JUMP_PAUSE_SECONDS) / 2
        running = [
            asyncio.create_task(workload.run(dose.messages, spread, world.random)),
            asyncio.create_task(long_turns(workload)),
        ]
        for number in range(dose.faults):
            await asyncio.sleep(world.random.uniform(*JUMP_PAUSE_SECONDS))
            lap, turn = divmod(number, len(world.services))
            name, hours = world.services[turn], JUMPS_HOURS[(turn + lap) % 2]
            await set_clock(world, name, SKEWS_SECONDS[name] + hours * 3600)
        await asyncio.gather(*running)
        lost = taken_over(world) - takeovers
        oracle.verdict.check(lost == 0, f"{lost} turns were taken over, and nobody had died")
        await check_events(world, oracle.verdict)
        return await oracle.judge()


@asynccontextmanager
async def own_clocks(world: NetworkWorld, faketime: Path) -> AsyncIterator[None]:
    """Every process of every service has a clock of its own, and a skewed one meanwhile."""
    switch = world.clocks / "libfaketime"
    switch.write_text(str(faketime))
    try:
        await start_again(world)
        for name, seconds in SKEWS_SECONDS.items():
            await set_clock(world, name, seconds)
        yield
    finally:
        switch.unlink()
        for name in SKEWS_SECONDS:
            await set_clock(world, name, 0)


async def start_again(world: NetworkWorld) -> None:
    """All services as new processes."""
    for name in world.services:
        old = world.heeler.kill9(name)
        await asyncio.to_thread(world.heeler.wait_restarted, name, old, RESTARTED_SECONDS_MAX)
    for name in world.services:
        await world.pid(name)
    await world.healthy()


async def set_clock(world: NetworkWorld, name: str, seconds: int) -> None:
    """Let the clock of a process be wrong by so much from now on."""
    clock = world.clocks / f"{service_of(name)}.{await world.pid(name)}"
    assert clock.exists(), f"{name} has no clock of its own"
    # In one step: who reads half a time gives up, and its process with it.
    draft = clock.with_suffix(".draft")
    draft.write_text(f"{seconds:+d}\n")
    draft.replace(clock)


async def long_turns(workload: Workload) -> None:
    """Turns whose leases have to be renewed while the clocks jump."""
    requests = [
        workload.request(agent, tool=True, script=f"SLOW:{LONG_MS} ", lane=2)
        for agent in workload.agents[:LONG_TURNS]
    ]
    await asyncio.gather(*map(workload.send, requests))


def taken_over(world: NetworkWorld) -> int:
    """How often a process took a turn from another."""
    logs = world.heeler.home.glob("logs/agent*.log")
    return sum(log.read_text().count("taking over the run") for log in logs)


async def check_events(world: NetworkWorld, verdict: Verdict) -> None:
    """The clocks were wrong indeed: the log tells of hours that never were."""
    rows = await world.sql(
        "select extract(epoch from min(occurred_at) - now())::float,"
        " extract(epoch from max(occurred_at) - now())::float from agent.events"
    )
    behind, ahead = (seconds / 3600 for seconds in rows[0])
    verdict.figures |= {"hours_behind": behind, "hours_ahead": ahead}
    verdict.check(behind < -1 and ahead > 1, "the clocks did not jump")
