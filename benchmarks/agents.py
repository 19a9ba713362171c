"""The agents that a run works with: made before they are needed, deleted at the end."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Iterable

from benchmarks.client import Connection, Origin

CONNECTIONS_MAX = 8
CALL_SECONDS_MAX = 60.0
BLOCKS = [
    {"label": "human", "value": "The user is called Sam and likes short answers."},
    {"label": "persona", "value": "I am a helpful assistant with a good memory."},
]


class RunFailed(Exception):
    """Nothing can be measured; the message says why."""


class NoFreshAgent(Exception):
    """All agents that were made for this row are used up."""


class Agents:
    """Makes agents and remembers them. A fresh one has not been sent a message."""

    def __init__(self, origin: Origin, *, model: str, embedding: str) -> None:
        self.origin = origin
        body = {"model": model, "embedding": embedding, "memory_blocks": BLOCKS}
        self.create_request = origin.request("POST", "/v1/agents/", body)
        self.made: list[str] = []
        self.blocks: list[str] = []
        self.fresh: deque[str] = deque()

    def take(self) -> str:
        """A fresh agent, which is no longer fresh."""
        if not self.fresh:
            raise NoFreshAgent
        return self.fresh.popleft()

    def remember(self, body: bytes) -> str:
        """Note an agent that was created; its id."""
        try:
            document = json.loads(body)
            agent_id: str = document["id"]
            blocks = document.get("blocks") or document["memory"]["blocks"]
            self.blocks += [block["id"] for block in blocks]
        except (ValueError, KeyError, TypeError) as problem:
            raise RunFailed(f"a created agent looks wrong: {problem!r}") from problem
        self.made.append(agent_id)
        return agent_id

    async def have(self, count: int) -> None:
        """Make agents until there are so many in all."""
        await self.make(count - len(self.made))

    async def have_fresh(self, count: int) -> None:
        """Make agents until so many are fresh."""
        await self.make(count - len(self.fresh))

    async def make(self, count: int) -> None:
        answers = await self.call([self.create_request] * count)
        self.fresh.extend(self.remember(body) for body in answers)

    async def delete(self) -> None:
        """Delete all that was made, so that a server that is not ours is left as it was."""
        agents = [self.origin.request("DELETE", f"/v1/agents/{each}") for each in self.made]
        blocks = [self.origin.request("DELETE", f"/v1/blocks/{each}") for each in self.blocks]
        await self.call(agents)
        await self.call(blocks)
        self.made.clear()
        self.blocks.clear()
        self.fresh.clear()

    async def call(self, requests: Iterable[bytes]) -> list[bytes]:
        """The bodies of the answers; raises RunFailed unless every one is a success."""
        waiting, bodies = deque(requests), list[bytes]()
        connections = [Connection(self.origin) for _ in range(min(CONNECTIONS_MAX, len(waiting)))]

        async def work(connection: Connection) -> None:
            while waiting:
                bodies.append(await one_call(connection, waiting.popleft()))

        try:
            await asyncio.gather(*map(work, connections))
        finally:
            for connection in connections:
                connection.close()
        return bodies


async def one_call(connection: Connection, request: bytes) -> bytes:
    """The body of a successful answer, or RunFailed."""
    line = request.partition(b" HTTP/1.1")[0].decode()
    try:
        async with asyncio.timeout(CALL_SECONDS_MAX):
            response = await connection.request(request)
    except TimeoutError:
        raise RunFailed(f"{line}: no answer in {CALL_SECONDS_MAX:.0f} s") from None
    except OSError as problem:
        raise RunFailed(f"{line}: {problem}") from problem
    if response.status not in (200, 201, 204):
        raise RunFailed(f"{line}: {response.status} {response.body[:300].decode(errors='replace')}")
    return response.body
