"""A proxy that lets a request through, and then loses or replaces the first answer."""

from __future__ import annotations

import asyncio
import contextlib
from enum import Enum
from typing import Self

UNAVAILABLE = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n"
    b"content-length: 2\r\nconnection: close\r\n\r\n{}"
)


class Misfortune(Enum):
    """What the client gets instead of the answer."""

    SWALLOWED = "the connection breaks after the server answered"
    UNAVAILABLE = "a 503 after the server answered"
    TOO_EARLY = "a 503 while the server still works"


class Proxy:
    """Forwards to a port of this machine, one request for each connection."""

    def __init__(self, port: int) -> None:
        self.target = port
        self.misfortune: Misfortune | None = None
        self.requests = 0

    async def __aenter__(self) -> Self:
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.base_url = f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_exception: object) -> None:
        self.server.close()
        await self.server.wait_closed()

    def fail_next(self, misfortune: Misfortune) -> None:
        """The next request meets this, the ones after it do not."""
        self.misfortune, self.requests = misfortune, 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, EOFError):
            request = await read_message(reader)
            self.requests += 1
            misfortune, self.misfortune = self.misfortune, None
            if misfortune is Misfortune.TOO_EARLY:
                forwarding = asyncio.create_task(self.forward(request))
                writer.write(UNAVAILABLE)
                await writer.drain()
                writer.close()
                await forwarding
                return
            answer = await self.forward(request)
            if misfortune is None:
                writer.write(answer)
            elif misfortune is Misfortune.UNAVAILABLE:
                writer.write(UNAVAILABLE)
            await writer.drain()
        writer.close()

    async def forward(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.target)
        writer.write(request)
        answer = await read_message(reader, closing=True)
        writer.close()
        return answer


async def read_message(reader: asyncio.StreamReader, *, closing: bool = False) -> bytes:
    """A whole request or answer; with `closing` the reader is told that no more will come."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    body = await reader.readexactly(length)
    if closing:
        head = head[:-2] + b"connection: close\r\n\r\n"
    return head + body
