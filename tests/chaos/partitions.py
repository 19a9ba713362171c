"""R15: a process and a server cannot reach each other, while everything else goes on.

There are two processes of each service. The one that is cut off from Postgres has turns of its own
then: the other must take them over, and what arrives late from the first must not be written.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from tests.chaos.dose import Dose
from tests.chaos.network import NetworkWorld
from tests.chaos.oracle import Verdict, begin
from tests.chaos.takeovers import SlowTurns
from tests.chaos.wire import BOTH, Way
from tests.chaos.workload import Workload
from tests.chaos.world import Kill

SECONDS = 11.5  # more than a lease lasts
LONG_SECONDS = 30.0
CALM_SECONDS = 1.0

TO_SERVER, TO_CLIENT = frozenset({Way.TO_SERVER}), frozenset({Way.TO_CLIENT})


@dataclass(frozen=True, slots=True)
class Partition:
    """One process of a service does not reach a server."""

    part: str
    server: str
    ways: frozenset[Way]

    def __str__(self) -> str:
        way = "both ways" if self.ways == BOTH else next(iter(self.ways)).value
        return f"{self.part} - {self.server}, {way}"


# Each round has a worker without Postgres, a worker without NATS and an api without NATS; over
# three rounds every pair meets silence from both sides, from the server and from the client.
ROUNDS = (
    (
        Partition("agent", "postgres", BOTH),
        Partition("memory", "nats", TO_SERVER),
        Partition("api", "nats", TO_CLIENT),
    ),
    (
        Partition("agent-2", "postgres", TO_SERVER),
        Partition("memory", "nats", TO_CLIENT),
        Partition("api-2", "nats", BOTH),
    ),
    (
        Partition("agent", "postgres", TO_CLIENT),
        Partition("agent-2", "nats", BOTH),
        Partition("memory", "postgres", BOTH),
    ),
)


async def r15_partitions(world: NetworkWorld, dose: Dose) -> Verdict:
    """Cut off some processes, again and again, each time for longer than a lease lasts."""
    workload, oracle = await begin(world, "R15", agents=dose.agents)
    seconds = SECONDS if dose.faults <= len(ROUNDS) else LONG_SECONDS
    spread = dose.faults * (seconds + CALM_SECONDS)
    running = asyncio.create_task(workload.run(dose.messages, spread, world.random))
    for number in range(dose.faults):
        await apart(world, workload, oracle.verdict, ROUNDS[number % len(ROUNDS)], seconds)
        await asyncio.sleep(CALM_SECONDS)
    await running
    await world.healthy()
    await check_ownership(world, oracle.verdict)
    return await oracle.judge()


async def apart(
    world: NetworkWorld,
    workload: Workload,
    verdict: Verdict,
    partitions: tuple[Partition, ...],
    seconds: float,
) -> None:
    """Cut off these processes in the middle of turns, and see that the others take those over."""
    cut_off = await world.pid(partitions[0].part)
    turns = await SlowTurns(world).begin(workload)
    async with separated(world, partitions):
        began = time.monotonic()
        await turns.leave(cut_off, verdict)
        await asyncio.sleep(max(0.0, began + seconds - time.monotonic()))
    await turns.end(verdict)


@asynccontextmanager
async def separated(world: NetworkWorld, partitions: tuple[Partition, ...]) -> AsyncIterator[None]:
    """A world with these partitions in it."""
    began = time.monotonic()
    async with AsyncExitStack() as stack:
        for partition in partitions:
            pids = [await world.pid(partition.part)]
            await stack.enter_async_context(
                world.switchboard.partition(partition.server, pids, partition.ways)
            )
        yield
    for partition in partitions:
        world.kills.append(Kill(began, partition.part, until=time.monotonic()))


async def check_ownership(world: NetworkWorld, verdict: Verdict) -> None:
    """What two owners would have done twice stands in the log once."""
    for topic, name in (
        ("model.replied", "payload->>'step_id'"),
        ("tool_call.started", "payload->>'step_id' || (payload->>'tool_call_id')"),
        ("tool_call.finished", "payload->>'step_id' || (payload->>'tool_call_id')"),
        ("run.completed", "about"),
    ):
        rows = await world.sql(
            f"select {name}, count(*) from agent.events where topic = '{topic}'"
            " group by 1 having count(*) > 1"
        )
        verdict.doubled += [f"{times} x {topic} of {row}" for row, times in rows]
        counted = await world.sql(f"select count({name}) from agent.events where topic = '{topic}'")
        verdict.check(counted[0][0] > 0, f"no {topic} to look at")
