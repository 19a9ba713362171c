"""W1: 50 agents, 1,000 messages, 30 % with a tool call that writes a line into a ledger.

The ledger is a memory block of the agent's own, each line of it unique: what happened twice, or
not at all, can be read there.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.client import NO_ANSWER, Answer, Client

MODEL = "openai/gpt-4o-mini"
EMBEDDING = "openai/text-embedding-3-small"
LEDGER_CHARS_MAX = 1_000_000
CREATING_AT_ONCE = 8
CREATING_SECONDS_MAX = 120.0
TOOL_SHARE = 0.3
TWO_LANES_SHARE = 0.2  # so many agents get two messages at a time, and must queue one


@dataclass(slots=True)
class Request:
    """A message to an agent, and what became of it."""

    agent: str
    lane: int
    name: str
    line: str | None
    script: str = ""
    key: str | None = None
    due: float = 0.0
    sent_at: float = 0.0
    answered_at: float = 0.0
    answer: Answer = NO_ANSWER

    @property
    def text(self) -> str:
        """The user message: a script for the model. The answer is the name."""
        call = ""
        if self.line:
            arguments = json.dumps({"label": "ledger", "new_string": self.line})
            call = f"CALL:memory_insert:{arguments} "
        return f"{self.name} {self.script}{call}SAY:answer to {self.name}"

    @property
    def said(self) -> str:
        return f"answer to {self.name}"

    @property
    def seconds(self) -> float:
        return self.answered_at - self.sent_at

    @property
    def body(self) -> dict[str, Any]:
        return {"messages": [{"role": "user", "content": self.text}]}


@dataclass(slots=True)
class Workload:
    """The agents of one scenario and everything that was sent to them."""

    client: Client
    name: str
    agents: list[str] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)

    async def create_agents(self, wanted: int) -> None:
        """Agents with an empty ledger each, and no other tool."""
        gate = asyncio.Semaphore(CREATING_AT_ONCE)

        async def create(number: int) -> str:
            body = {
                "name": f"{self.name}-{number}",
                "model": MODEL,
                "embedding": EMBEDDING,
                "include_base_tools": False,
                "tools": ["memory_insert"],
                "memory_blocks": [{"label": "ledger", "value": "", "limit": LEDGER_CHARS_MAX}],
            }
            async with gate:
                key = f"create-{self.name}-{number}"
                answer = await self.client.send(
                    "POST", "/v1/agents", body, key=key, seconds_max=CREATING_SECONDS_MAX
                )
            assert answer.ok, f"creating an agent: {answer.status} {answer.body!r}"
            return str(answer.json()["id"])

        first = len(self.agents)
        self.agents += await asyncio.gather(*map(create, range(first, first + wanted)))

    def request(
        self, agent: str, *, tool: bool, script: str = "", lane: int = 0, keyed: bool = True
    ) -> Request:
        """A new request, noted but not sent."""
        name = f"{self.name}-{len(self.requests)}"
        line = f"line of {name}." if tool else None
        request = Request(agent, lane, name, line, script, f"key-{name}" if keyed else None)
        self.requests.append(request)
        return request

    def plan(self, messages: int, seconds: float, rolls: random.Random) -> list[list[Request]]:
        """The requests of every lane, spread over the time; a lane sends one after the other."""
        pairs = [(agent, 0) for agent in self.agents]
        pairs += [(agent, 1) for agent in self.agents[: int(len(self.agents) * TWO_LANES_SHARE)]]
        lanes: list[list[Request]] = [[] for _ in pairs]
        for number in range(messages):
            agent, lane = pairs[number % len(pairs)]
            request = self.request(agent, tool=rolls.random() < TOOL_SHARE, lane=lane)
            request.due = seconds * number / messages
            lanes[number % len(pairs)].append(request)
        return lanes

    async def run(self, messages: int, seconds: float, rolls: random.Random) -> None:
        """Send that many messages within about so many seconds, until all are answered."""
        lanes = self.plan(messages, seconds, rolls)
        started = time.monotonic()

        async def drive(lane: list[Request]) -> None:
            for request in lane:
                await asyncio.sleep(max(0.0, started + request.due - time.monotonic()))
                await self.send(request)

        await asyncio.gather(*map(drive, lanes))

    async def send(self, request: Request) -> Request:
        """Send a request until it is answered or given up."""
        request.sent_at = time.monotonic()
        path = f"/v1/agents/{request.agent}/messages"
        request.answer = await self.client.send("POST", path, request.body, key=request.key)
        request.answered_at = time.monotonic()
        return request
