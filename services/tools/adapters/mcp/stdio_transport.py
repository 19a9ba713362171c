"""The messages from and to a server that is a process: a line for each."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import anyio
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter
from pydantic import ValidationError

from services.tools.adapters.mcp.allowed_commands import AllowedCommand
from services.tools.adapters.mcp.failures import NoMessage
from services.tools.adapters.mcp.http_transport import REPLY_BYTES_MAX
from services.tools.adapters.mcp.message_repair import without_halves
from services.tools.adapters.mcp.ports import McpFailed
from services.tools.adapters.mcp.server_processes import ServerProcess, ServerProcesses
from services.tools.adapters.sandbox_process import SandboxProcess

READ_BYTES = 1 << 16
# What a line says before anything that it holds within: there a message names itself.
OUTERMOST = re.compile(rb"\s*\{[^{\[]*")
REQUEST_ID = re.compile(rb'"id"\s*:\s*(\d{1,15})\b')


@asynccontextmanager
async def stdio_transport(
    processes: ServerProcesses,
    command: AllowedCommand,
    environment: Mapping[str, str],
    end: Callable[[McpFailed], None],
) -> AsyncIterator[TransportStreams]:
    """The messages of a process that lives as long."""
    process = await processes.start(command, environment, end)
    try:
        yield Lines(process), Writer(process.sandbox)
    finally:
        await asyncio.shield(asyncio.ensure_future(processes.stop(process)))


class Lines(ObjectReceiveStream[SessionMessage | Exception]):
    """What a process says. Nothing is read ahead of a message that nobody has taken."""

    def __init__(self, process: ServerProcess) -> None:
        self.process = process
        self.buffer = bytearray()
        self.searched = 0
        self.ended = False
        self.loop = asyncio.get_running_loop()
        # From here on the messages are read here; what came before was dropped.
        self.loop.remove_reader(process.sandbox.stdout.file)

    async def receive(self) -> SessionMessage | Exception:
        """The next message, or the line that is none. One that names a request has answered it,
        with an error."""
        line = without_halves((await self.line()).decode("utf-8", "replace").encode())
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValidationError:
            request = answered_request(line)
        if request is None:
            return NoMessage(line)
        error = ErrorData(code=PARSE_ERROR, message="the line is no JSON-RPC message")
        return SessionMessage(JSONRPCError(jsonrpc="2.0", id=request, error=error))

    async def line(self) -> bytes:
        """The next line that says something. Raises EndOfStream."""
        while True:
            end = self.buffer.find(b"\n", self.searched)
            if end >= 0:
                line = bytes(self.buffer[:end])
                del self.buffer[: end + 1]
                self.searched = 0
                if line.strip():
                    return line
                continue
            self.searched = len(self.buffer)
            if self.searched > REPLY_BYTES_MAX:
                self.process.kill(f"a line has more than {REPLY_BYTES_MAX} bytes", "too_large")
                raise anyio.EndOfStream
            if not await self.more():
                self.process.end(await self.process.failure_at_end())
                raise anyio.EndOfStream

    async def more(self) -> bool:
        """Take one piece; false at the end."""
        stdout = self.process.sandbox.stdout
        while not (self.ended or stdout.ended):
            try:
                piece = os.read(stdout.file, READ_BYTES)
            except BlockingIOError:
                await readable(self.loop, stdout.file)
                continue
            self.buffer += piece
            self.ended = not piece
            return bool(piece)
        return False

    async def aclose(self) -> None:
        """Stop reading the output of the process."""
        self.ended = True


class Writer(ObjectSendStream[SessionMessage]):
    """What a process is told. A message is written whole, or the process ends."""

    def __init__(self, sandbox: SandboxProcess) -> None:
        self.sandbox = sandbox
        self.turn = asyncio.Lock()
        self.closed = False

    async def send(self, item: SessionMessage) -> None:
        """Write one message to the process."""
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        async with self.turn:
            if self.closed or self.sandbox.ended:
                raise anyio.ClosedResourceError
            data = text.encode() + b"\n"
            whole = len(data)
            try:
                while data:
                    try:
                        data = data[os.write(self.sandbox.program, data) :]
                    except BlockingIOError:
                        await self.sandbox.writable()
            except BrokenPipeError:
                raise anyio.BrokenResourceError from None
            except BaseException:
                if len(data) < whole:
                    self.sandbox.kill()
                raise

    async def aclose(self) -> None:
        """Close the input of the process."""
        self.closed = True


def answered_request(line: bytes) -> int | None:
    """The request that a broken answer names; None for a line of a log, which may have any `id`."""
    outermost = OUTERMOST.match(line)
    if outermost is None or b'"jsonrpc"' not in outermost[0] or b'"method"' in line:
        return None
    named = REQUEST_ID.search(outermost[0])
    return int(named[1]) if named else None


async def readable(loop: asyncio.AbstractEventLoop, file: int) -> None:
    """Until something can be read."""
    able: asyncio.Future[None] = loop.create_future()

    def tell() -> None:
        if not able.done():
            able.set_result(None)

    loop.add_reader(file, tell)
    try:
        await able
    finally:
        loop.remove_reader(file)
