"""An MCP server of the standard library alone, which also does what none should.

    python scripted.py --stdio [--start crash|hang|garbage|SECONDS] [--pages endless|same]
    python scripted.py --http             prints its port; /mcp, and /sse with /messages

Each tool is a way to behave: echo, environment, slow, crash, hang, garbage, large, notify, sample.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

LARGE_BYTES = 100 << 20
PIECE_BYTES = 1 << 20
VERSION = "2025-06-18"
TOOLS = {
    "echo": "Says what it is told.",
    "environment": "Says what a variable holds.",
    "process": "Says its process id, and which processes it sees.",
    "fork": "Leaves a process behind that lives on.",
    "read": "Says what a file holds.",
    "write": "Writes a file.",
    "connect": "Connects to an address.",
    "headers": "Says which headers the request had.",
    "slow": "Answers after some seconds.",
    "crash": "Ends the server, or the connection.",
    "hang": "Never answers.",
    "garbage": "Answers something that is no MCP.",
    "large": "Answers 100 MB.",
    "notify": "Says things unasked, without end.",
    "sample": "Asks for a model, then says what it was told.",
    "resume": "Loses its connection, and answers when it is asked again.",
    "fail": "Fails.",
}

type Send = Callable[[Any], Awaitable[None]]


class Ended(Exception):
    """The connection is to be closed."""


class Server:
    """What it answers, whatever it is asked over. `send` takes a message, or bytes as they are."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.waiting: dict[str, asyncio.Future[Any]] = {}
        self.numbers = itertools.count(1)

    async def answer(self, message: dict[str, Any], send: Send, headers: dict[str, str]) -> None:
        """Answer a request; take note of anything else."""
        method = message.get("method")
        if method is None:
            future = self.waiting.pop(str(message.get("id")), None)
            if future is not None:
                future.set_result(message)
        elif "id" in message:
            try:
                result = await self.result(method, message.get("params") or {}, send, headers)
            except LookupError as unknown:
                error = {"code": -32601, "message": f"unknown: {unknown}"}
                await send({"jsonrpc": "2.0", "id": message["id"], "error": error})
            else:
                await send({"jsonrpc": "2.0", "id": message["id"], "result": result})

    async def result(
        self, method: str, params: dict[str, Any], send: Send, headers: dict[str, str]
    ) -> dict[str, Any]:
        """What is answered to a request."""
        match method:
            case "initialize":
                await self.start()
                return {
                    "protocolVersion": VERSION,
                    "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
                    "serverInfo": {"name": "scripted", "version": "1"},
                }
            case "ping":
                return {}
            case "tools/list":
                return self.listed(params.get("cursor"))
            case "tools/call":
                return await self.called(params, send, headers)
            case "resources/list":
                return {"resources": [{"uri": "memo://one", "name": "one"}]}
            case "resources/read":
                return {"contents": [{"uri": params["uri"], "text": "read"}]}
            case "prompts/list":
                return {"prompts": [{"name": "greet", "arguments": [{"name": "who"}]}]}
            case "prompts/get":
                text = {"type": "text", "text": f"Greet {params['arguments']['who']}"}
                return {"messages": [{"role": "user", "content": text}]}
        raise LookupError(method)

    async def start(self) -> None:
        """Begin as it was bid."""
        how = self.arguments.start
        if how == "crash":
            raise Ended
        if how == "hang":
            await asyncio.Event().wait()
        if how.isdigit():
            await asyncio.sleep(int(how))

    def listed(self, cursor: str | None) -> dict[str, Any]:
        """A page of the tools."""
        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        tools = [
            {"name": name, "description": says, "inputSchema": schema}
            for name, says in TOOLS.items()
        ]
        match self.arguments.pages:
            case "endless":
                return {"tools": tools[:1], "nextCursor": str(int(cursor or 0) + 1)}
            case "same":
                return {"tools": tools[:1], "nextCursor": "same"}
        half = len(tools) // 2
        return {"tools": tools[half:]} if cursor else {"tools": tools[:half], "nextCursor": "2"}

    async def called(
        self, params: dict[str, Any], send: Send, headers: dict[str, str]
    ) -> dict[str, Any]:
        """Behave as the name of the tool says."""
        text = str((params.get("arguments") or {}).get("text", ""))
        match params["name"]:
            case "echo":
                return content(text)
            case "environment":
                return content(json.dumps(dict(os.environ)) if text == "*" else os.environ[text])
            case "process":
                pids = [name for name in os.listdir("/proc") if name.isdigit()]
                return content(json.dumps({"pid": os.getpid(), "sees": len(pids)}))
            case "fork":
                if os.fork() == 0:
                    os.setsid()
                    os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)"])
                return content("forked")
            case "read" | "write" as does:
                return on_file(does, text)
            case "connect":
                try:
                    _, writer = await asyncio.open_connection(*text.rsplit(":", 1))
                except OSError as refused:
                    return content(f"refused: {refused}", failed=True)
                writer.close()
                return content("connected")
            case "headers":
                return content(json.dumps(headers))
            case "slow":
                await asyncio.sleep(float(text))
                return content("at last")
            case "crash":
                raise Ended
            case "hang":
                await asyncio.Event().wait()
            case "garbage":
                for _ in range(200):
                    await send(b"{this is no message")
                raise Ended
            case "large":
                await send(large)
                return {}
            case "notify":
                log = {"level": "info", "data": "unasked"}
                told = {"jsonrpc": "2.0", "method": "notifications/message", "params": log}
                while True:
                    await send(told)
            case "sample":
                return content(await self.sampled(send))
            case "resume":
                raise Resumed(content("resumed"))
            case "fail":
                return content("it failed", failed=True)
        raise LookupError(params["name"])

    async def sampled(self, send: Send) -> str:
        """What the client says when it is asked for a model."""
        number = f"sample-{next(self.numbers)}"
        self.waiting[number] = asyncio.get_running_loop().create_future()
        said = {"role": "user", "content": {"type": "text", "text": "Hi"}}
        params = {"messages": [said], "maxTokens": 5}
        method = "sampling/createMessage"
        await send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        answer = await self.waiting[number]
        return json.dumps(answer.get("error") or answer.get("result"))


class Resumed(Exception):
    """The connection is lost; the result is told to whoever asks for it again."""

    def __init__(self, result: dict[str, Any]) -> None:
        super().__init__()
        self.result = result


def content(text: str, *, failed: bool = False) -> dict[str, Any]:
    """The result of a call."""
    return {"content": [{"type": "text", "text": text}], "isError": failed}


def on_file(does: str, path: str) -> dict[str, Any]:
    """What came of reading or writing a file."""
    try:
        with open(path, "r" if does == "read" else "w") as file:
            return content(file.read() if does == "read" else str(file.write("written")))
    except OSError as refused:
        return content(f"refused: {refused.strerror}", failed=True)


async def large() -> AsyncIterator[bytes]:
    """A message of 100 MB, in pieces."""
    yield b'{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"'
    for _ in range(LARGE_BYTES // PIECE_BYTES):
        yield b"x" * PIECE_BYTES
    yield b'"}}'


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
            data = message if isinstance(message, bytes) else json.dumps(message).encode()
            await asyncio.to_thread(write_all, data + b"\n")

    async def answer(message: dict[str, Any]) -> None:
        try:
            await server.answer(message, send, {})
        except (Ended, Resumed):
            os._exit(3)

    if server.arguments.start == "garbage":
        for _ in range(1000):
            await send(b"this is not what it should say")
    tasks = set()
    while line := await reader.readline():
        tasks.add(asyncio.create_task(answer(json.loads(line))))


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
        if (message.get("params") or {}).get("name") == "large":
            await begin(writer, "application/json")
            async for piece in large():
                await write(writer, piece)
            raise Ended
        await begin(writer, "text/event-stream", "mcp-session-id: one")
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
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        await write(writer, b"event: message\ndata: " + data + b"\n\n")

    return send


async def nobody(_: Any) -> None:
    """Where there is nobody to answer to."""


async def begin(writer: asyncio.StreamWriter, kind: str, *lines: str) -> None:
    """The head of an answer whose end is that of the connection."""
    more = "".join(f"{line}\r\n" for line in lines)
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n{more}\r\n"
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
