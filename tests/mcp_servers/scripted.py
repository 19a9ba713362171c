"""An MCP server of the standard library alone, which also does what none should.

    python scripted.py --stdio [--start crash|hang|garbage|SECONDS] [--pages endless|same]
    python scripted.py --http             prints its port; /mcp, and /sse with /messages

Each tool is a way to behave: see behaviours.py.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import sys
from typing import Any

from behaviours import Ended, Resumed, Send, Server, large


async def over_stdio(server: Server) -> None:
    """A line for each message."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=16 << 20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    turn = asyncio.Lock()

    async def send(message: Any) -> None:
        async with turn:
            if callable(message):
                async for piece in message():
                    await asyncio.to_thread(write_all, piece)
                await asyncio.to_thread(write_all, b"\n")
                return
            write_all((message if isinstance(message, bytes) else to_bytes(message)) + b"\n")
            await asyncio.sleep(0)

    async def answer(message: dict[str, Any]) -> None:
        try:
            await server.answer(message, send, {})
        except (Ended, Resumed):
            os._exit(3)

    if server.arguments.start == "garbage":
        for _ in range(1000):
            await send(b"this is not what it should say")
        await asyncio.Event().wait()
    tasks = set()
    while line := await reader.readline():
        tasks.add(asyncio.create_task(answer(json.loads(line))))


def to_bytes(message: Any) -> bytes:
    """A message as it is written."""
    return json.dumps(message).encode()


def write_all(data: bytes) -> None:
    """Write to stdout, as far as somebody reads it."""
    while data:
        data = data[os.write(1, data) :]


class Http:
    """The two transports that go over HTTP."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.streams: dict[str, Send] = {}
        self.kept: dict[str, Any] = {}
        self.numbers = itertools.count(1)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, and close."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.strip().split("\r\n")
            method, target, _ = first.split(" ")
            headers = {
                name.strip().lower(): text.strip()
                for name, text in (line.split(":", 1) for line in lines)
            }
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            await self.routed(method, target, headers, body, writer)
        except (Ended, Resumed, ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def routed(
        self,
        method: str,
        target: str,
        headers: dict[str, str],
        body: bytes,
        writer: asyncio.StreamWriter,
    ) -> None:
        """One request."""
        path, _, query = target.partition("?")
        token = self.server.arguments.token
        if token and headers.get("authorization") != f"Bearer {token}":
            await plain(writer, "401 Unauthorized")
        elif (method, path) == ("POST", "/mcp"):
            await self.posted(headers, json.loads(body), writer)
        elif (method, path) == ("GET", "/mcp") and "last-event-id" in headers:
            await self.asked_again(headers["last-event-id"], writer)
        elif (method, path) == ("GET", "/sse"):
            await self.streamed(writer)
        elif (method, path) == ("POST", "/messages"):
            await self.taken(query, headers, json.loads(body), writer)
        elif path == "/redirect":
            await plain(writer, "307 Temporary Redirect", f"Location: {self.server.arguments.to}")
        else:
            await plain(writer, "405 Method Not Allowed")

    async def posted(
        self, headers: dict[str, str], message: dict[str, Any], writer: asyncio.StreamWriter
    ) -> None:
        """A message over streamable HTTP, answered as events, or a large one as JSON."""
        if "id" not in message or "method" not in message:
            await self.server.answer(message, nobody, headers)
            await plain(writer, "202 Accepted")
            return
        if self.server.arguments.start == "garbage":
            writer.write(b"this is no HTTP at all\r\n\r\n")
            raise Ended
        session = self.server.arguments.session
        if headers.get("mcp-session-id", session) != session:
            lost = {"code": -32001, "message": "Session not found"}
            await begin(writer, "application/json", status="404 Not Found")
            await write(writer, to_bytes({"jsonrpc": "2.0", "id": message["id"], "error": lost}))
            return
        if (message.get("params") or {}).get("name") == "large":
            await begin(writer, "application/json")
            async for piece in large():
                await write(writer, piece)
            raise Ended
        await begin(writer, "text/event-stream", f"mcp-session-id: {session}")
        send = events(writer)
        try:
            await self.server.answer(message, send, headers)
        except Resumed as lost:
            number = str(next(self.numbers))
            result = {"jsonrpc": "2.0", "id": message["id"], "result": lost.result}
            self.kept[number] = result
            await write(writer, f"id: {number}\nretry: 10\ndata:\n\n".encode())

    async def asked_again(self, number: str, writer: asyncio.StreamWriter) -> None:
        """What came after an event."""
        await begin(writer, "text/event-stream")
        await events(writer)(self.kept.pop(number))

    async def streamed(self, writer: asyncio.StreamWriter) -> None:
        """The stream of a client over SSE."""
        number = str(next(self.numbers))
        await begin(writer, "text/event-stream")
        await write(writer, f"event: endpoint\ndata: /messages?session={number}\n\n".encode())
        self.streams[number] = events(writer)
        while not writer.is_closing():
            await asyncio.sleep(0.2)
            await write(writer, b": still here\n\n")

    async def taken(
        self,
        query: str,
        headers: dict[str, str],
        message: dict[str, Any],
        writer: asyncio.StreamWriter,
    ) -> None:
        """A message over SSE, answered in the stream."""
        send = self.streams[query.removeprefix("session=")]
        await plain(writer, "202 Accepted")
        writer.close()
        await self.server.answer(message, send, headers)


def events(writer: asyncio.StreamWriter) -> Send:
    """Each message as an event."""

    async def send(message: Any) -> None:
        if callable(message):
            await write(writer, b"event: message\ndata: ")
            async for piece in message():
                await write(writer, piece)
            await write(writer, b"\n\n")
            return
        data = message if isinstance(message, bytes) else to_bytes(message)
        await write(writer, b"event: message\ndata: " + data + b"\n\n")

    return send


async def nobody(_: Any) -> None:
    """Where there is nobody to answer to."""


async def begin(
    writer: asyncio.StreamWriter, kind: str, *lines: str, status: str = "200 OK"
) -> None:
    """The head of an answer whose end is that of the connection."""
    more = "".join(f"{line}\r\n" for line in lines)
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nConnection: close\r\n{more}\r\n"
    await write(writer, head.encode())


async def plain(writer: asyncio.StreamWriter, status: str, *lines: str) -> None:
    """An answer without a body."""
    more = "".join(f"{line}\r\n" for line in lines)
    head = f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n{more}\r\n"
    await write(writer, head.encode())


async def write(writer: asyncio.StreamWriter, data: bytes) -> None:
    """Write, and wait for whoever reads slowly."""
    writer.write(data)
    await writer.drain()


async def over_http(server: Server) -> None:
    """Serve, and say where."""
    listening = await asyncio.start_server(Http(server).serve, "127.0.0.1", server.arguments.port)
    print(listening.sockets[0].getsockname()[1], flush=True)
    async with listening:
        await listening.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--stdio", action="store_true")
    parser.add_argument("--http", action="store_true")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--start", default="")
    parser.add_argument("--pages", default="")
    parser.add_argument("--token", default="")
    parser.add_argument("--session", default="one")
    parser.add_argument("--to", default="")
    arguments = parser.parse_args()
    if arguments.stdio and arguments.start == "crash":
        sys.exit("it crashes in its start")
    if arguments.stdio and arguments.start.isdigit():
        import time

        time.sleep(int(arguments.start))
    server = Server(arguments)
    asyncio.run(over_stdio(server) if arguments.stdio else over_http(server))


if __name__ == "__main__":
    main()
