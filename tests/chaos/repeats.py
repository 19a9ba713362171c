"""R11 and R12: the same message, the same request, again and again."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from dataclasses import dataclass, field

import nats
from letta_client import AsyncLetta
from nats.aio.msg import Msg

from tests.chaos.dose import Dose
from tests.chaos.oracle import Oracle, Verdict, begin
from tests.chaos.proxy import Misfortune, Proxy
from tests.chaos.workload import Request, Workload
from tests.chaos.world import World
from tests.waiting import wait_for

COPIES = 3
BURST_MESSAGES = 64
SECONDS_PER_MESSAGE = 0.03
DRAINED_SECONDS_MAX = 60.0
CONCURRENT = 20
QUEUED_SECONDS_MAX = 10.0


@dataclass(slots=True)
class Tape:
    """Everything that went over the bus."""

    messages: list[Msg] = field(default_factory=list)

    async def hear(self, message: Msg) -> None:
        self.messages.append(message)


async def r11_everything_comes_again(world: World, dose: Dose) -> Verdict:
    """Publish every command and every event again, three times, in random order."""
    await world.restored(alone=False)
    workload = Workload(world.client(), world.new_name("R11"))
    client = await nats.connect(world.heeler.nats_url, allow_reconnect=False)
    tape = Tape()
    for pattern in ("*.command.>", "*.event.>"):
        await client.subscribe(pattern, cb=tape.hear)
    await client.flush()
    await workload.create_agents(dose.agents)
    oracle = await Oracle(world, workload, "R11").begin()
    await workload.run(dose.messages, dose.messages * SECONDS_PER_MESSAGE, world.random)
    before = await counts(world)
    heard = list(tape.messages)
    copies = heard * COPIES
    world.random.shuffle(copies)
    for number, message in enumerate(copies):
        headers = dict(message.headers or {})
        if world.random.random() < 0.5:
            headers.pop("Nats-Msg-Id", None)  # so that JetStream does not drop it for us
        await client.publish(message.subject, message.data, headers=headers)
        if number % BURST_MESSAGES == 0:
            await client.flush()
    await client.flush()
    await drained(world)
    after = await counts(world)
    await client.close()
    commands = sum(".command." in message.subject for message in heard)
    oracle.verdict.figures |= {"commands": commands, "events": len(heard) - commands}
    oracle.verdict.check(commands >= dose.messages, f"only {commands} commands were heard")
    for name, number in after.items():
        if number != before[name]:
            oracle.verdict.doubled.append(f"{name}: {before[name]} became {number}")
    return await oracle.judge()


async def counts(world: World) -> dict[str, int]:
    """How much there is of everything that a command or an event may cause."""
    names = ("agent.events", "memory.events", "agent.inbox", "memory.inbox", "agent.runs")
    return {name: int((await world.sql(f"select count(*) from {name}"))[0][0]) for name in names}


async def lose_the_first_try(world: World, workload: Workload) -> None:
    """A request without a key whose command nobody handles before api and agent die.

    The client's retry is a command of its own and is handled first; the command of the first try
    waits in the queue for its acknowledgement to run out, and comes 10 s later.
    """
    os.kill(world.heeler.pid("agent"), signal.SIGSTOP)
    request = workload.request(workload.agents[0], tool=False, keyed=False)
    sending = asyncio.create_task(workload.send(request))
    await wait_for("the command is queued", lambda: queued(world), QUEUED_SECONDS_MAX)
    await world.kill9("api", "agent")
    await sending
    await drained(world)


async def queued(world: World) -> int:
    """How many commands wait to be acknowledged."""
    client = await nats.connect(world.heeler.nats_url, allow_reconnect=False)
    info = await client.jetstream().stream_info("COMMANDS")
    await client.close()
    return int(info.state.messages)


async def drained(world: World) -> None:
    """Wait until no command waits in the queue."""

    async def empty() -> bool:
        return await queued(world) == 0

    await wait_for("all commands are handled", empty, DRAINED_SECONDS_MAX)


async def r12_clients_insist(world: World, dose: Dose) -> Verdict:
    """Many requests with the same key at once; and the SDK's own retries, which have no key."""
    workload, oracle = await begin(world, "R12", agents=dose.agents)
    for number in range(dose.messages):
        agent = workload.agents[number % len(workload.agents)]
        await insist(workload, workload.request(agent, tool=number % 2 == 0), oracle.verdict)
    async with Proxy(world.heeler.port) as proxy:
        for misfortune in Misfortune:
            for tool in (True, False):
                request = workload.request(workload.agents[0], tool=tool, keyed=False)
                await ask_with_sdk(proxy, misfortune, request, oracle.verdict)
    await lose_the_first_try(world, workload)
    return await oracle.judge()


async def insist(workload: Workload, request: Request, verdict: Verdict) -> None:
    """The same request, many times at once: one turn, and the same answer for all."""
    copies = [
        Request(request.agent, 0, request.name, request.line, request.script, request.key)
        for _ in range(CONCURRENT)
    ]
    await asyncio.gather(*map(workload.send, copies))
    request.answer, request.sent_at = copies[0].answer, copies[0].sent_at
    request.answered_at = max(copy.answered_at for copy in copies)
    # As values: the order of JSON's keys is not the same from the bus and from Postgres.
    answers = {
        (copy.answer.status, json.dumps(copy.answer.json(), sort_keys=True)) for copy in copies
    }
    verdict.check(len(answers) == 1, f"{request.name}: {len(answers)} answers: {answers}")


async def ask_with_sdk(
    proxy: Proxy, misfortune: Misfortune, request: Request, verdict: Verdict
) -> None:
    """The unmodified SDK asks through a proxy that loses the first answer; it retries alone."""
    proxy.fail_next(misfortune)
    loop = asyncio.get_running_loop()
    request.sent_at = loop.time()
    async with AsyncLetta(base_url=proxy.base_url, api_key="none") as client:
        answer = await client.agents.messages.create(
            agent_id=request.agent, messages=[{"role": "user", "content": request.text}]
        )
    request.answered_at = loop.time()
    said = [
        message.content
        for message in answer.messages
        if message.message_type == "assistant_message"
    ]
    verdict.check(said == [request.said], f"{request.name}: the SDK got {said}")
    verdict.check(proxy.requests == 2, f"{request.name}: the SDK asked {proxy.requests} times")
    request.answer = type(request.answer)(200)
