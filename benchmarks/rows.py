"""What each row does, over and over: one kind of operation for each word before the number."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from typing import ClassVar, Protocol
from urllib.parse import urlencode

from benchmarks.agents import Agents, RunFailed
from benchmarks.client import Connection, Origin, Response
from libs.bus.ports import Bus, BusUnavailable, Clock, Ids
from libs.contracts.bus_messages import Context, Rejected
from libs.contracts.memory.blocks import UpdateBlock

CONCURRENCIES = {
    "bus": (1,),
    "get": (1, 8),
    "list": (1, 8),
    "create": (1, 8),
    "message": (1, 8, 64, 256),
    "stream": (1,),
    "insert": (8,),
    "search": (1, 8),
    "minilm": (1, 8),
}
MESSAGES_PER_AGENT_MAX = 20
AGENTS_TO_GET = 50
AGENTS_TO_LIST = 1_000
PAGE = 50
PASSAGES = 1_000
MESSAGE = {"messages": [{"role": "user", "content": "Good morning, how are you?"}]}
MESSAGE_EVENT = re.compile(rb'"message_type": ?"(?!error_message)\w+_message"')


@dataclass(frozen=True, slots=True)
class Outcome:
    """One operation: how long it took, and what went wrong ("" if nothing)."""

    seconds: float
    problem: str = ""


Operate = Callable[[Connection], Awaitable[Outcome]]


class Kind(Protocol):
    """One kind of operation."""

    what: ClassVar[str]

    async def prepare(self, concurrency: int, operations: int) -> None:
        """Make what so many workers need for so many operations in all."""
        ...

    def worker(self) -> Operate:
        """What one worker does again and again."""
        ...


def outcome(response: Response, *, good: bool, seconds: float | None = None) -> Outcome:
    """Judge an answer: its status, then its content."""
    problem = str(response.status) if response.status != 200 else "" if good else "wrong content"
    return Outcome(response.seconds if seconds is None else seconds, problem)


class Message:
    """Sends messages, each worker to an agent of its own, which is changed for a fresh one."""

    what: ClassVar[str] = "one-step message"
    path: ClassVar[str] = "messages"
    body: ClassVar[object] = MESSAGE

    def __init__(self, agents: Agents) -> None:
        self.agents = agents

    async def prepare(self, concurrency: int, operations: int) -> None:
        spare = math.ceil(operations / MESSAGES_PER_AGENT_MAX)
        await self.agents.have_fresh(concurrency + spare)

    def worker(self) -> Operate:
        request, left = b"", 0

        async def operate(connection: Connection) -> Outcome:
            nonlocal request, left
            if left == 0:
                path = f"/v1/agents/{self.agents.take()}/{self.path}"
                request = self.agents.origin.request("POST", path, self.body)
                left = MESSAGES_PER_AGENT_MAX
            left -= 1
            return await self.send(connection, request)

        return operate

    async def send(self, connection: Connection, request: bytes) -> Outcome:
        response = await connection.request(request)
        return outcome(response, good=b'"assistant_message"' in response.body)


class Stream(Message):
    """The same with an answer in tokens; timed is the first event that is a message."""

    what: ClassVar[str] = "stream, to the first message event"
    path: ClassVar[str] = "messages/stream"
    body: ClassVar[object] = {**MESSAGE, "stream_tokens": True}

    async def send(self, connection: Connection, request: bytes) -> Outcome:
        response = await connection.request(request, notice=MESSAGE_EVENT)
        body, first = response.body, response.noticed_seconds
        good = first is not None and b"[DONE]" in body and b'"error_message"' not in body
        return outcome(response, good=good, seconds=first)


class Get:
    """Reads agents in turn."""

    what: ClassVar[str] = "get agent"

    def __init__(self, agents: Agents) -> None:
        self.agents = agents

    async def prepare(self, concurrency: int, operations: int) -> None:
        await self.agents.have(AGENTS_TO_GET)

    def worker(self) -> Operate:
        origin, numbers = self.agents.origin, count()
        chosen = self.agents.made[:AGENTS_TO_GET]
        wanted = [(origin.request("GET", f"/v1/agents/{id_}"), id_.encode()) for id_ in chosen]

        async def operate(connection: Connection) -> Outcome:
            request, agent_id = wanted[next(numbers) % len(wanted)]
            response = await connection.request(request)
            return outcome(response, good=agent_id in response.body)

        return operate


class List:
    """Reads the first page of all agents."""

    what: ClassVar[str] = "list 50 of 1,000 agents"

    def __init__(self, agents: Agents) -> None:
        self.agents = agents
        self.request = agents.origin.request("GET", f"/v1/agents/?limit={PAGE}")

    async def prepare(self, concurrency: int, operations: int) -> None:
        await self.agents.have(AGENTS_TO_LIST)
        (page,) = await self.agents.call([self.request])
        listed = len(json.loads(page))
        if listed != PAGE:
            raise RunFailed(f"GET /v1/agents/?limit={PAGE} lists {listed} agents")

    def worker(self) -> Operate:
        async def operate(connection: Connection) -> Outcome:
            response = await connection.request(self.request)
            # Parsing each page would cost the client more than many a server needs to make it.
            return outcome(response, good=response.body.count(b'"agent_type"') >= PAGE)

        return operate


class Create:
    """Makes agents."""

    what: ClassVar[str] = "create agent with two blocks"

    def __init__(self, agents: Agents) -> None:
        self.agents = agents

    async def prepare(self, concurrency: int, operations: int) -> None:
        pass

    def worker(self) -> Operate:
        async def operate(connection: Connection) -> Outcome:
            response = await connection.request(self.agents.create_request)
            if response.status == 200:
                self.agents.fresh.append(self.agents.remember(response.body))
            return outcome(response, good=True)

        return operate


class Insert:
    """Lets agents remember texts, each worker one of its own."""

    what: ClassVar[str] = "archival insert"

    def __init__(self, agents: Agents) -> None:
        self.agents, self.numbers = agents, count()

    async def prepare(self, concurrency: int, operations: int) -> None:
        await self.agents.have_fresh(concurrency)

    def worker(self) -> Operate:
        agent_id = self.agents.take()

        async def operate(connection: Connection) -> Outcome:
            request = insert_request(self.agents.origin, agent_id, next(self.numbers))
            response = await connection.request(request)
            return outcome(response, good=b'"passage-' in response.body)

        return operate


class Search:
    """Searches what an agent remembers, by a question that nobody has asked before."""

    what: ClassVar[str] = "archival search among 1,000"

    def __init__(self, agents: Agents) -> None:
        self.agents = agents
        self.agent_id = ""
        self.numbers = count()

    async def prepare(self, concurrency: int, operations: int) -> None:
        if self.agent_id:
            return
        await self.agents.have_fresh(1)
        self.agent_id = self.agents.take()
        origin = self.agents.origin
        await self.agents.call(
            insert_request(origin, self.agent_id, number) for number in range(PASSAGES)
        )

    def worker(self) -> Operate:
        path = f"/v1/agents/{self.agent_id}/archival-memory/search"

        async def operate(connection: Connection) -> Outcome:
            query = f"who likes {remembered(next(self.numbers) * 7)}?"
            asked = f"{path}?{urlencode({'query': query, 'top_k': 10})}"
            response = await connection.request(self.agents.origin.request("GET", asked))
            return outcome(response, good=response.body.count(b'"content"') >= 10)

        return operate


def insert_request(origin: Origin, agent_id: str, number: int) -> bytes:
    """What lets an agent remember the text of a number."""
    body = {"text": f"Person {number} likes {remembered(number)}."}
    return origin.request("POST", f"/v1/agents/{agent_id}/archival-memory", body)


def remembered(number: int) -> str:
    """What a person likes: another thing for each number."""
    things = ("tea", "music", "running", "chess", "gardens", "trains", "poetry")
    return f"{things[number % 7]} {number} times in the year {1_000 + number % 1_009}"


class BusCommand:
    """Sends the memory service a command that changes nothing: what the bus and the shell cost."""

    what: ClassVar[str] = "bare command round trip"

    def __init__(self, agents: Agents, bus: Bus, ids: Ids, clock: Clock) -> None:
        self.agents, self.bus, self.ids, self.clock = agents, bus, ids, clock

    async def prepare(self, concurrency: int, operations: int) -> None:
        await self.agents.have(1)
        if not self.agents.blocks:
            raise RunFailed("the created agent shows no blocks")

    def worker(self) -> Operate:
        command = UpdateBlock(block_id=self.agents.blocks[0], changes={})

        async def operate(connection: Connection) -> Outcome:
            context = Context(message_id=self.ids.new("command"))
            started = self.clock.monotonic()
            try:
                reply = await self.bus.request(command, context)
            except BusUnavailable:
                return Outcome(0.0, "no answer")
            problem = reply.code if isinstance(reply, Rejected) else ""
            return Outcome(self.clock.monotonic() - started, problem)

        return operate
