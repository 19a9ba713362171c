"""R25: streams are dropped every two seconds and resumed, while the api and NATS die."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
from letta_client import APIConnectionError, AsyncLetta, InternalServerError

from tests.chaos.dose import Dose
from tests.chaos.oracle import Verdict
from tests.chaos.workload import Workload
from tests.chaos.world import World
from tests.waiting import wait_for

DROP_SECONDS = 2.0
DRIP_MS = 100
ANSWER_SECONDS = 12.0
ROUND_SECONDS_MAX = 180.0
AGAIN_SECONDS = 0.2
Fault = Callable[[World], Awaitable[None]]
LOST = (APIConnectionError, InternalServerError, httpx.TransportError, TimeoutError)


@dataclass(slots=True)
class Reader:
    """One client that reads one answer, however often its connection is dropped."""

    agent: str
    script: str
    text: str
    run_id: str = ""
    drops: int = 0
    ended: bool = False
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def seen(self) -> int:
        """The number of the last event that was read."""
        return max((event["seq_id"] or 0 for event in self.events if "seq_id" in event), default=0)

    async def read(self, client: AsyncLetta) -> None:
        """Until the end, in pieces of two seconds."""
        body = [{"role": "user", "content": self.script}]
        first = await client.agents.messages.stream(
            self.agent, messages=body, stream_tokens=True, background=True
        )  # type: ignore[call-overload]
        await self.read_on(first)
        while not self.ended:
            try:
                rest = await client.runs.messages.stream(self.run_id, starting_after=self.seen)
            except LOST:
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                await self.read_on(rest)

    async def read_on(self, stream: Any) -> None:
        """What comes within two seconds."""
        with suppress(*LOST):
            async with asyncio.timeout(DROP_SECONDS):
                async for event in stream:
                    self.events.append(event.model_dump(mode="json"))
                    self.run_id = self.run_id or self.events[0]["run_id"]
                    self.ended = event.message_type == "usage_statistics"
        self.drops += not self.ended
        with suppress(*LOST):
            await stream.response.aclose()

    def words(self) -> dict[str, str]:
        """The assistant's messages by id, put together from what was read."""
        whole: dict[str, str] = defaultdict(str)
        for event in self.events:
            if event["message_type"] == "assistant_message":
                whole[event["id"]] += event["content"]
        return dict(whole)

    async def judge(self, client: AsyncLetta, verdict: Verdict) -> None:
        """The bytes are those of the history; no number is missing and none comes twice."""
        history = [message async for message in client.agents.messages.list(self.agent, limit=100)]
        said = {
            message.id: message.content
            for message in history
            if message.message_type == "assistant_message"
        }
        mine = {key: value for key, value in said.items() if value == self.text}
        if self.words() != mine or len(mine) != 1:
            verdict.lost.append(f"{self.agent} read {self.words()}, the history has {said}")
        numbers = [event["seq_id"] for event in self.events
                   if event.get("seq_id") and event["message_type"] != "ping"]  # fmt: skip
        if sorted(numbers) != numbers or len(set(numbers)) != len(numbers):
            verdict.doubled.append(f"{self.agent} read the numbers {numbers}")
        if numbers != [*range(2, len(numbers) + 2)]:
            verdict.lost.append(f"{self.agent} read the numbers {numbers}")
        run = await client.runs.retrieve(self.run_id)
        if run.status != "completed":
            verdict.stuck.append(f"{self.run_id} is {run.status}")


async def r25_streams_are_resumed(world: World, dose: Dose) -> Verdict:
    """Rounds of five clients until there were so many drops. In every other round the api dies in
    the middle of the answers, in the others NATS does, with its store."""
    await world.restored()
    workload = Workload(world.client(), world.new_name("R25"))
    await workload.create_agents(dose.agents)
    first_kill = len(world.kills)
    verdict = Verdict("R25")
    drops = rounds = 0
    async with AsyncLetta(base_url=world.heeler.base_url, api_key="none", max_retries=0) as client:
        while drops < dose.faults or rounds < len(FAULTS):
            readers = [reader(agent, rounds) for agent in workload.agents]
            await read_through(FAULTS[rounds % len(FAULTS)], world, client, readers)
            for follower in readers:
                await follower.judge(client, verdict)
            drops += sum(reader.drops for reader in readers)
            rounds += 1
    verdict.messages = rounds * dose.agents
    verdict.kills = len(world.kills) - first_kill
    verdict.figures |= {"drops": drops, "rounds": rounds}
    return verdict


async def read_through(
    fault: Fault, world: World, client: AsyncLetta, readers: list[Reader]
) -> None:
    """Let the readers read, and hurt something when all of them are in the middle of it."""
    reading = [asyncio.create_task(reader.read(client)) for reader in readers]
    async with asyncio.timeout(ROUND_SECONDS_MAX):
        await wait_for("every client reads", lambda: all(reader.drops for reader in readers))
        await fault(world)
        await asyncio.gather(*reading)
    await world.healthy()


async def kill_api(world: World) -> None:
    """The api dies; it comes back by itself."""
    await world.kill9("api")


async def wipe_nats(world: World) -> None:
    """NATS dies with its store, and all tokens that are not history."""
    async with world.without("nats"):
        world.wipe_nats()


FAULTS: tuple[Fault, ...] = (kill_api, wipe_nats)


def reader(agent: str, number: int) -> Reader:
    """A reader of an answer with a tool call that takes a while to tell, unlike any other."""
    pieces = round(ANSWER_SECONDS * 1000 / DRIP_MS)
    text = "".join(f"{number:03}{n:04} " for n in range(pieces)).strip()
    call = f'CALL:memory_insert:{{"label":"ledger","new_string":"{agent} {number}"}}'
    return Reader(agent, f"DRIP:{DRIP_MS} {call} SAY:{text}", text)
