"""HOPELESS: what can never succeed, from clients and from senders on the bus, and messages that a
model refuses; others go on as if none of it were there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from libs.bus.clock_and_ids import RandomIds
from libs.bus.nats_bus import NatsBus
from libs.contracts.agent.agents import UpdateAgent
from libs.contracts.bus_messages import DEFAULT_ORG, DEFAULT_USER, Context, Rejected
from tests.chaos.dose import Dose
from tests.chaos.oracle import Oracle, Verdict
from tests.chaos.workload import Workload
from tests.chaos.world import World

REQUESTS_OF_A_ROUND = 160  # as many as once stopped all creates for an hour
COMMANDS_OF_A_ROUND = 20
TOO_LONG_BYTES = 2_800  # random ones: no index takes a name of so many, and none is shorter packed
SECONDS_OF_A_ROUND = 5.0
SECONDS_MAX = 10.0


async def hopeless(world: World, dose: Dose) -> Verdict:
    """Each round asks what is refused, from everywhere, and the others are answered."""
    await world.restored()
    workload = Workload(world.client(), world.new_name("HOPELESS"))
    await workload.create_agents(dose.agents)
    victims = Workload(world.client(), world.new_name("REFUSED"))
    await victims.create_agents(dose.faults + 1)
    oracle = await Oracle(world, workload, "HOPELESS").begin()
    verdict = oracle.verdict
    updated, *brickable = victims.agents
    async with sender(world) as bus:
        for agent in brickable:
            await asyncio.gather(
                workload.run(dose.messages // dose.faults, SECONDS_OF_A_ROUND, world.random),
                *(ask_in_vain(world, verdict) for _ in range(REQUESTS_OF_A_ROUND)),
                *(
                    command_in_vain(world, bus, updated, verdict)
                    for _ in range(COMMANDS_OF_A_ROUND)
                ),
                message_in_vain(world, agent, verdict),
            )
    verdict.check(not workload.client.refusals, f"others met {workload.client.refusals}")
    return await oracle.judge()


@asynccontextmanager
async def sender(world: World) -> AsyncIterator[NatsBus]:
    """Somebody who sends commands past the api, which would refuse them."""
    bus = NatsBus(world.heeler.nats_url, RandomIds().new("sender"))
    await bus.start()
    try:
        yield bus
    finally:
        await bus.stop()


async def ask_in_vain(world: World, verdict: Verdict) -> None:
    """A client wants a name that is too long."""
    body = {"name": world.random.randbytes(TOO_LONG_BYTES).hex(), "model": "openai/gpt-4o-mini"}
    began = time.monotonic()
    answer = await world.client().send("POST", "/v1/agents", body)
    slow = time.monotonic() - began > SECONDS_MAX
    verdict.check(answer.status == 422 and not slow, f"too long a name: {answer}")


async def command_in_vain(world: World, bus: NatsBus, agent: str, verdict: Verdict) -> None:
    """The same as a command: nothing has looked at it when it comes to the store."""
    name = world.random.randbytes(TOO_LONG_BYTES).hex()
    command_id = RandomIds().new("cmd")
    context = Context(command_id, org=DEFAULT_ORG, actor=DEFAULT_USER, correlation_id=command_id)
    command = UpdateAgent(agent_id=agent, request={"name": name})
    reply = await bus.request(command, context, seconds_max=SECONDS_MAX)
    verdict.check(isinstance(reply, Rejected), f"a hopeless command was answered {reply}")
    if isinstance(reply, Rejected):
        kind = f"commands_{reply.code}"
        verdict.figures[kind] = verdict.figures.get(kind, 0) + 1


async def message_in_vain(world: World, agent: str, verdict: Verdict) -> None:
    """The model refuses a message for good: its run fails, and the next one is answered."""
    client, path = world.client(), f"/v1/agents/{agent}/messages"
    refused = f"unspeakable-{world.random.randrange(1 << 60)}"
    await world.model.refuse(refused)
    answer = await client.send("POST", path, {"input": refused})
    verdict.check(answer.status == 400, f"a refused message: {answer}")
    answer = await client.send("POST", path, {"input": "SAY:Still here."})
    verdict.check(answer.ok and b"Still here." in answer.body, f"after a refused message: {answer}")
