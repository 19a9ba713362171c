"""A small HTTP client that gives up as late as the SDKs and asks again as they do.

Raw asyncio and a connection for each request: under a kill -9 nothing of an earlier request may
decide what happens to this one, and 50 of them must not cost more than the server does.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

ATTEMPT_SECONDS_MAX = 60.0  # the SDKs' own limit
GIVE_UP_SECONDS = 120.0
RETRY_SECONDS_FIRST = 0.25
RETRY_SECONDS_MAX = 2.0
RETRIED_STATUSES = frozenset({408, 409, 429})


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said in the end, and what it took to hear it."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    attempts: int = 1

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Refusal:
    """An attempt that failed: a status, or 0 where the connection did."""

    at: float
    status: int


NO_ANSWER = Answer(0)


class Client:
    """Talks to one server; `refusals` remembers every attempt that did not succeed."""

    def __init__(self, base_url: str) -> None:
        address = urlsplit(base_url)
        assert address.hostname
        assert address.port
        self.host, self.port = address.hostname, address.port
        self.refusals: list[Refusal] = []

    async def get(self, path: str) -> Any:
        """The JSON of a resource, however long the server is away."""
        answer = await self.send("GET", path)
        assert answer.ok, f"GET {path}: {answer.status} {answer.body[:300]!r}"
        return answer.json()

    async def send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        key: str | None = None,
        seconds_max: float = GIVE_UP_SECONDS,
    ) -> Answer:
        """Ask until there is an answer that an SDK would take, at most so long."""
        content = b"" if body is None else json.dumps(body).encode()
        deadline = time.monotonic() + seconds_max
        pause, attempt = RETRY_SECONDS_FIRST, 0
        answer = NO_ANSWER
        while time.monotonic() < deadline:
            headers = {"x-stainless-retry-count": str(attempt)}
            if key:
                headers["idempotency-key"] = key
            attempt += 1
            try:
                answer = await self.once(method, path, content, headers)
            except (OSError, EOFError, ValueError, TimeoutError):
                answer = NO_ANSWER
            if not retried(answer):
                break
            self.refusals.append(Refusal(time.monotonic(), answer.status))
            await asyncio.sleep(pause)
            pause = min(pause * 2, RETRY_SECONDS_MAX)
        return Answer(answer.status, answer.headers, answer.body, attempt)

    async def once(
        self, method: str, path: str, content: bytes = b"", headers: dict[str, str] | None = None
    ) -> Answer:
        """One request on a connection of its own; raises if the answer does not come whole."""
        async with asyncio.timeout(ATTEMPT_SECONDS_MAX):
            reader, writer = await asyncio.open_connection(self.host, self.port, limit=1 << 24)
            try:
                lines = [
                    f"{method} {path} HTTP/1.1",
                    f"host: {self.host}:{self.port}",
                    "connection: close",
                    "content-type: application/json",
                    f"content-length: {len(content)}",
                    *(f"{name}: {value}" for name, value in (headers or {}).items()),
                ]
                writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + content)
                head = await reader.readuntil(b"\r\n\r\n")
                return await read_answer(head, reader)
            finally:
                writer.close()


async def read_answer(head: bytes, reader: asyncio.StreamReader) -> Answer:
    """The status, the headers and the whole body."""
    first, *rest = head.decode().split("\r\n")
    pairs = (line.split(":", 1) for line in rest if ":" in line)
    headers = {name.lower(): value.strip() for name, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Answer(int(first.split(" ", 2)[1]), headers, body)


def retried(answer: Answer) -> bool:
    """Whether an SDK would ask again."""
    wish = answer.headers.get("x-should-retry")
    if wish is not None:
        return wish == "true"
    return answer.status == 0 or answer.status >= 500 or answer.status in RETRIED_STATUSES
