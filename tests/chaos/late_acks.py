"""R14: a worker holds a command too long and acknowledges it after all, another dies of it.

JetStream takes the late acknowledgement for the newer delivery too, so the message is gone though
nobody did the work. Here the worker is ours: it takes commands from the agents' own queue, does
nothing, and acknowledges them when they were given to somebody else who then died.
"""

from __future__ import annotations

import asyncio
import time

import nats
from nats.aio.msg import Msg

from libs.contracts.stream_definitions import COMMAND_ACK_WAIT_SECONDS, DELIVERIES_OF_COMMANDS
from tests.chaos.dose import Dose
from tests.chaos.oracle import Verdict, begin
from tests.chaos.repeats import queued
from tests.chaos.workload import Workload
from tests.chaos.world import Kill, World
from tests.waiting import wait_for

QUEUE = "agent"
POINT = "before_commit.message.appended"
HELD_SECONDS_MAX = 30.0
SECOND_SECONDS_MAX = 40.0
DONE_SECONDS_MAX = 60.0


async def r14_late_acks(world: World, dose: Dose) -> Verdict:
    """Each time: only our worker is there, it holds a command past its time, the second worker dies
    before it commits, and ours acknowledges everything that it held."""
    workload, oracle = await begin(world, "R14", agents=dose.faults)
    slowest = 0.0
    for agent in workload.agents:
        request = workload.request(agent, tool=True)
        acked_at = await lose_one(world, workload, oracle.verdict)
        slowest = max(slowest, request.answered_at - acked_at)
    oracle.verdict.figures["done_seconds_max"] = slowest
    oracle.verdict.check(slowest <= DONE_SECONDS_MAX, f"done only after {slowest:.0f} s")
    return await oracle.judge()


async def lose_one(world: World, workload: Workload, verdict: Verdict) -> float:
    """Have one message lost by JetStream, and wait until it is answered; when it was lost."""
    request = workload.requests[-1]
    worker = await nats.connect(world.heeler.nats_url, allow_reconnect=False)
    held: list[Msg] = []

    async def hold(message: Msg) -> None:
        held.append(message)

    deliveries = DELIVERIES_OF_COMMANDS.format(service="agent")
    async with world.without("agent"):
        taking = await worker.subscribe(deliveries, queue=QUEUE, cb=hold)
        await worker.flush()
        sending = asyncio.create_task(workload.send(request))
        await wait_for("a command is held", lambda: held, HELD_SECONDS_MAX)
        await asyncio.sleep(COMMAND_ACK_WAIT_SECONDS + 1.0)
        world.arm(POINT)
        await taking.unsubscribe()
        await worker.flush()
    await wait_for("the second worker died", lambda: world.fired(POINT), SECOND_SECONDS_MAX)
    world.kills.append(Kill(time.monotonic(), "agent"))
    for message in held:
        await worker.publish(message.reply, b"+ACK")
    await worker.flush()
    acked_at = time.monotonic()
    verdict.figures["held"] = verdict.figures.get("held", 0) + len(held)
    verdict.figures["left_in_queue"] = verdict.figures.get("left_in_queue", 0) + await queued(world)
    await worker.close()
    await sending
    return acked_at
