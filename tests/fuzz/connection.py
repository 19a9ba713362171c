"""One HTTP/1.1 connection that sends what it is told, however wrong."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

from tests.fuzz.mutations import Request

READ_BYTES_MAX = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; status 0 where the connection broke off."""

    status: int
    body: bytes


class Connection:
    """A connection that is opened when it is needed, and again when the server has closed it."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: Request) -> Answer:
        """Send a request and read the whole answer."""
        reused = self.streams is not None
        try:
            return await self.exchange(request)
        except (OSError, EOFError):
            await self.close()
            # A server may close an idle connection at any time.
            return await self.ask(request) if reused else Answer(0, b"")

    async def exchange(self, request: Request) -> Answer:
        if self.streams is None:
            self.streams = await asyncio.open_connection(self.host, self.port, limit=READ_BYTES_MAX)
        reader, writer = self.streams
        writer.write(self.head(request) + request.content)
        await writer.drain()
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        body = await read_body(reader, head)
        if "\r\nconnection: close" in head:
            await self.close()
        return Answer(int(head.split(" ", 2)[1]), body)

    def head(self, request: Request) -> bytes:
        """The request line and the headers."""
        sent = {"content-type": "application/json", **dict(request.headers)}
        lines = [
            f"{request.method} {request.target} HTTP/1.1",
            f"host: {self.host}:{self.port}",
            f"content-length: {len(request.content)}",
            *(f"{name}: {value}" for name, value in sent.items()),
        ]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8")

    async def close(self) -> None:
        """Leave."""
        if self.streams is not None:
            _, writer = self.streams
            self.streams = None
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


async def read_body(reader: asyncio.StreamReader, head: str) -> bytes:
    """The body that follows a head."""
    if "transfer-encoding: chunked" in head:
        body = b""
        while True:
            size = int(await reader.readuntil(b"\r\n"), 16)
            body += (await reader.readexactly(size + 2))[:-2]
            if size == 0:
                return body
    for line in head.split("\r\n"):
        name, _, value = line.partition(":")
        if name == "content-length":
            return await reader.readexactly(int(value))
    return b""
