"""What a scripted server answers, over whatever it is asked. Of the standard library alone."""

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
LATER_SECONDS = 0.5
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
    "log": "Says what is no MCP, and then answers.",
    "words": "Answers in words that are no JSON.",
    "broken": "Answers JSON that is broken off.",
    "half": "Answers a text that ends in half a surrogate pair.",
    "large": "Answers 100 MB.",
    "notify": "Says things unasked, without end.",
    "sample": "Asks for a model, as it is told to, then says what it was told.",
    "sample_later": "Asks for a model when its call is over.",
    "capabilities": "Says what the client can do.",
    "resume": "Loses its connection, and answers when it is asked again.",
    "fail": "Fails.",
}

ONE_OF = [{"properties": {"a": {"type": "string"}}}, {"properties": {"b": {"type": "string"}}}]
ODD_TOOLS: list[Any] = [
    {"name": "empty", "inputSchema": {}},
    {"name": "none"},
    {"name": "null", "description": None, "inputSchema": {"type": "object", "required": None}},
    {"name": "untyped", "inputSchema": {"properties": {"a": {"type": "string"}}}},
    {"name": "one_of", "inputSchema": {"oneOf": ONE_OF}},
    {"name": "nullable", "inputSchema": {"type": ["object", "null"]}},
    {"name": "output", "inputSchema": {"type": "object"}, "outputSchema": {"properties": {}}},
    {"name": "title", "inputSchema": {"type": "object"}, "title": 5, "annotations": []},
    {"name": "array", "inputSchema": {"type": "array"}},
    {"name": "list", "inputSchema": []},
    {"name": "described", "description": {}, "inputSchema": {"type": "object"}},
    {"name": "properties", "inputSchema": {"type": "object", "properties": []}},
    {"name": 5, "inputSchema": {"type": "object"}},
    "tool",
]
# Those of which a tool can be made.
MENDED_TOOLS = ["empty", "none", "null", "untyped", "one_of", "nullable", "output", "title"]

type Send = Callable[[Any], Awaitable[None]]


class Ended(Exception):
    """The connection is to be closed."""


class Server:
    """What it answers, whatever it is asked over. `send` takes a message, or bytes as they are."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.waiting: dict[str, asyncio.Future[Any]] = {}
        self.numbers = itertools.count(1)
        self.capabilities: dict[str, Any] = {}
        self.tasks: set[asyncio.Task[str]] = set()
        self.asked = 0

    async def answer(self, message: dict[str, Any], send: Send, headers: dict[str, str]) -> None:
        """Answer a request; take note of anything else."""
        method = message.get("method")
        if method is None:
            future = self.waiting.pop(str(message.get("id")), None)
            if future is not None:
                future.set_result(message)
        elif "id" in message:
            self.asked = message["id"]
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
                self.capabilities = params.get("capabilities") or {}
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
            case "odd":
                return {"tools": [*tools[:1], *ODD_TOOLS]}
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
            case "log":
                await send(b"INFO: a line of a log")
                return content("logged")
            case "words":
                await send(text.encode())
                await asyncio.Event().wait()
            case "broken":
                await send(b'{"jsonrpc": "2.0", "id": %d, "result": {"content": [' % self.asked)
                await asyncio.Event().wait()
            case "half":
                return content("half a pair: \ud83d")
            case "large":
                await send(large)
                return {}
            case "notify":
                log = {"level": "info", "data": "unasked"}
                told = {"jsonrpc": "2.0", "method": "notifications/message", "params": log}
                while True:
                    await send(told)
            case "sample":
                params = json.loads(text or "{}")
                times = params.pop("times", 1)
                asked = [self.sampled(send, params) for _ in range(times)]
                return content("\n".join(await asyncio.gather(*asked)))
            case "sample_later":
                self.tasks.add(asyncio.create_task(self.sampled_later(send)))
                return content("later")
            case "capabilities":
                return content(json.dumps(self.capabilities))
            case "resume":
                raise Resumed(content("resumed"))
            case "fail":
                return content("it failed", failed=True)
        raise LookupError(params["name"])

    async def sampled_later(self, send: Send) -> str:
        """The same, when the call is over."""
        await asyncio.sleep(LATER_SECONDS)
        return await self.sampled(send, {})

    async def sampled(self, send: Send, wanted: dict[str, Any]) -> str:
        """What the client says when it is asked for a model."""
        number = f"sample-{next(self.numbers)}"
        self.waiting[number] = asyncio.get_running_loop().create_future()
        said = {"role": "user", "content": {"type": "text", "text": "Hi"}}
        params = {"messages": [said], "maxTokens": 5, **wanted}
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
