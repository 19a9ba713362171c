"""A V1 server that answers at once and keeps count, for the driver to drive."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.scripted_model.http1 import Answer, Connection

PING = {"message_type": "ping"}
ASSISTANT = {"message_type": "assistant_message", "content": "Good morning."}


def answered(document: object, status: int = 200) -> Answer:
    body = json.dumps(document).encode()
    return Answer([b"HTTP/1.1 %d Fine\r\nContent-Length: %d\r\n\r\n" % (status, len(body)), body])


def streamed(events: list[object], drip_ms: float) -> Answer:
    """Server-sent events, a chunk for each, the later ones `drip_ms` after the one before."""
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    lines = [b"data: %s\n\n" % json.dumps(event).encode() for event in events]
    lines.append(b"data: [DONE]\n\n")
    chunks = [b"%x\r\n%s\r\n" % (len(line), line) for line in lines]
    return Answer([head, *chunks, b"0\r\n\r\n"], drip_ms=drip_ms)


class FakeV1:
    """Agents with blocks, messages, streams; what it counts is there to be asserted."""

    def __init__(self) -> None:
        self.origin = ""
        self.agents: dict[str, dict[str, object]] = {}
        self.blocks: set[str] = set()
        self.messages: Counter[str] = Counter()
        self.passages: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.fail_every = 0
        self.says_nothing = False
        self.drip_ms = 0.0

    def respond(self, method: str, target: str, body: bytes) -> Answer:
        path = target.partition("?")[0].strip("/").split("/")
        self.asked[f"{method} {target}"] += 1
        match method, path:
            case "POST", ["v1", "agents"]:
                return answered(self.create(json.loads(body)))
            case "GET", ["v1", "agents"]:
                return answered(list(self.agents.values())[:50])
            case "POST", ["v1", "agents", agent_id, "archival-memory"]:
                self.passages[agent_id] += 1
                return answered([{"id": f"passage-{self.passages.total()}"}])
            case "GET", ["v1", "agents", agent_id, "archival-memory", "search"]:
                found = [{"content": "tea"}] * min(10, self.passages[agent_id])
                return answered({"results": found, "count": len(found)})
            case "GET", ["v1", "agents", agent_id]:
                return answered(self.agents[agent_id])
            case "DELETE", ["v1", "agents", agent_id]:
                del self.agents[agent_id]
                return answered({"message": "gone"})
            case "DELETE", ["v1", "blocks", block_id]:
                self.blocks.remove(block_id)
                return Answer([b"HTTP/1.1 204 No Content\r\n\r\n"])
            case "POST", ["v1", "agents", agent_id, "messages", *stream]:
                return self.message(agent_id, in_tokens=bool(stream))
        return answered({"detail": "no such thing"}, 404)

    def create(self, wanted: dict[str, list[dict[str, str]]]) -> dict[str, object]:
        number = len(self.asked) + sum(self.asked.values())
        blocks = [
            {**block, "id": f"block-{number}-{place}"}
            for place, block in enumerate(wanted["memory_blocks"])
        ]
        agent = {"id": f"agent-{number}", "agent_type": "letta_v1_agent", "blocks": blocks}
        self.blocks.update(str(block["id"]) for block in blocks)
        self.agents[str(agent["id"])] = agent
        return agent

    def message(self, agent_id: str, *, in_tokens: bool) -> Answer:
        self.messages[agent_id] += 1
        if self.fail_every and self.messages.total() % self.fail_every == 0:
            return answered({"detail": "Internal Server Error"}, 500)
        said: list[object] = [] if self.says_nothing else [ASSISTANT]
        if in_tokens:
            return streamed([PING, *said], self.drip_ms)
        return answered({"messages": said, "stop_reason": {"stop_reason": "end_turn"}})


@asynccontextmanager
async def fake_v1() -> AsyncIterator[FakeV1]:
    """The fake behind a real socket."""
    fake, clients = FakeV1(), set[Connection]()
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(
        lambda: Connection(fake.respond, clients), "127.0.0.1", 0, backlog=1024
    )
    fake.origin = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield fake
    finally:
        listener.close()
        for client in tuple(clients):
            client.abort()
        await listener.wait_closed()
