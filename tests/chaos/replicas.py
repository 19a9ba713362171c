"""Two of each, and a third that comes when there is work: R13 for every service, and scale-out.

Who did what is read from NATS, which counts the messages that it gave to each connection.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

from deploy.embedded.settings import SERVICES
from tests.chaos.client import Client
from tests.chaos.dose import Dose
from tests.chaos.network import NetworkWorld
from tests.chaos.oracle import Verdict, begin
from tests.chaos.takeovers import SlowTurns
from tests.chaos.workload import Workload
from tests.chaos.world import Kill
from tests.ports import free_port
from tests.waiting import wait_for

FROZEN_SECONDS = 15.0
MESSAGES_PER_SECOND = 8.0
LOAD_MESSAGES = 20
ADDED_SECONDS_MAX = 120.0
SHARE_MIN = 0.1  # of the messages that NATS gave to a service's processes; a third would be fair


async def r13_one_of_each_pair_freezes(world: NetworkWorld, dose: Dose) -> Verdict:
    """Freeze one process of each service at the same time, the agent's in model calls."""
    workload, oracle = await begin(world, "R13", agents=dose.agents)
    running = asyncio.create_task(
        workload.run(dose.messages, dose.messages / MESSAGES_PER_SECOND, world.random)
    )
    for number in range(dose.faults):
        await freeze_one_of_each(world, workload, oracle.verdict, number)
    await running
    await world.healthy()
    return await oracle.judge()


async def freeze_one_of_each(
    world: NetworkWorld, workload: Workload, verdict: Verdict, number: int
) -> None:
    """Put one of each pair to sleep; its turns must be taken over, and it must not go on."""
    parts = [world.replicas_of(service)[number % 2] for service in SERVICES]
    pids = {part: await world.pid(part) for part in parts}
    frozen_agent = next(pid for part, pid in pids.items() if part.startswith("agent"))
    turns = await SlowTurns(world).begin(workload)
    with asleep(list(pids.values())):
        began = time.monotonic()
        await turns.leave(frozen_agent, verdict)
        await asyncio.sleep(max(0.0, began + FROZEN_SECONDS - time.monotonic()))
    world.kills += [Kill(began, part, until=time.monotonic()) for part in parts]
    await turns.end(verdict)


@contextmanager
def asleep(pids: list[int]) -> Iterator[None]:
    """These processes stand still meanwhile."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


async def newcomers_take_work(world: NetworkWorld, dose: Dose) -> Verdict:
    """Under load a process of each service is added, and nobody is told of it."""
    workload, oracle = await begin(world, "SCALE", agents=dose.agents)
    port = str(free_port())
    added = {
        service: world.heeler.spawn_service(service, {"HEELER_PORT": port}).pid
        for service in SERVICES
    }

    pids = {
        service: [newcomer, *[await world.pid(part) for part in world.replicas_of(service)]]
        for service, newcomer in added.items()
    }
    everybody = {pid for some in pids.values() for pid in some}

    async def arrived() -> dict[int, int]:
        await load(world, workload, LOAD_MESSAGES)
        heard = await world.heard()
        return heard if everybody <= heard.keys() else {}

    before = await wait_for("newcomers and replicas are on the bus", arrived, ADDED_SECONDS_MAX)
    # A load balancer would send the new api a part of the requests; here it has its own address.
    beside = Workload(
        Client(f"http://127.0.0.1:{port}"), workload.name, workload.agents, workload.requests
    )
    await asyncio.gather(
        load(world, workload, dose.messages), load(world, beside, dose.messages // 2)
    )
    after = await world.heard()
    for service, three in pids.items():
        missing = set(three) - after.keys()
        assert not missing, f"{service}: {missing} of {three} left the bus under load"
        news = [after[pid] - before[pid] for pid in three]
        share = min(news) / sum(news)
        oracle.verdict.figures |= {
            f"{service}_newcomer_share": news[0] / sum(news),
            f"{service}_smallest_share": share,
        }
        oracle.verdict.check(
            share >= SHARE_MIN, f"of three {service} processes one got {share:.0%}"
        )
    verdict = await oracle.judge()
    await asyncio.to_thread(world.heeler.stop_replicas)
    return verdict


async def load(world: NetworkWorld, workload: Workload, messages: int) -> None:
    await workload.run(messages, messages / MESSAGES_PER_SECOND, world.random)
