"""Limits on messages that a server sends unasked: counted between the transport and the SDK."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
from anyio.abc import ObjectReceiveStream
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCRequest

from libs.telemetry import metrics
from services.tools.adapters.mcp.message_repair import repair
from services.tools.adapters.mcp.ports import McpFailed

# Of notifications, requests and lines that are no messages, in each stretch of time.
UNASKED_MAX = 1_000
UNASKED_SECONDS = 10.0
GARBAGE_MAX = 50
# What servers may ask of a client, and are not given: a model (unless they may), a person, folders.
SAMPLING = "sampling/createMessage"
REFUSED_REQUESTS = frozenset({SAMPLING, "elicitation/create", "roots/list"})

type Heard = Callable[[SessionMessage | Exception], None]


@asynccontextmanager
async def counted_messages(
    transport: AbstractAsyncContextManager[TransportStreams],
    heard: Heard,
    end: Callable[[McpFailed], None],
    over: Callable[[], None],
    refused: frozenset[str] = REFUSED_REQUESTS,
) -> AsyncIterator[TransportStreams]:
    """A transport of the SDK whose messages are counted; `heard` is told each, `end` when there are
    too many, `over` when there are no more. Requests that are `refused` are counted by their
    method."""
    async with transport as (read, write):
        yield CountedStream(read, heard, end, over, refused), write


class CountedStream(ObjectReceiveStream[SessionMessage | Exception]):
    """What comes from a server, counted."""

    def __init__(
        self,
        stream: Any,
        heard: Heard,
        end: Callable[[McpFailed], None],
        over: Callable[[], None],
        refused: frozenset[str],
    ) -> None:
        self.stream = stream
        self.heard = heard
        self.end = end
        self.over = over
        self.refused = refused
        self.loop = asyncio.get_running_loop()
        self.since = self.loop.time()
        self.unasked = 0
        self.garbage = 0

    @property
    def last_context(self) -> Any:
        """In what context the last message was sent on."""
        return getattr(self.stream, "last_context", None)

    def count(self, item: SessionMessage | Exception) -> None:
        """One more; the session ends if it is one too many, which raises EndOfStream."""
        now = self.loop.time()
        if now - self.since > UNASKED_SECONDS:
            self.since, self.unasked, self.garbage = now, 0, 0
        if isinstance(item, Exception):
            self.garbage += 1
        elif isinstance(item.message, (JSONRPCNotification, JSONRPCRequest)):
            self.unasked += 1
            method = item.message.method
            if method in self.refused:
                metrics.MCP_REQUESTS_REFUSED.labels(method).inc()
        if self.garbage > GARBAGE_MAX:
            words = f"it said more than {GARBAGE_MAX} things that are no MCP"
            self.end(McpFailed("protocol", words))
            raise anyio.EndOfStream
        if self.unasked > UNASKED_MAX:
            words = f"it said more than {UNASKED_MAX} things unasked in {UNASKED_SECONDS:g} seconds"
            self.end(McpFailed("too_large", words))
            raise anyio.EndOfStream

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message of the server."""
        try:
            item: SessionMessage | Exception = await self.stream.receive()
        except anyio.EndOfStream:
            self.over()
            raise
        self.count(item)
        if isinstance(item, SessionMessage):
            repair(item)
        self.heard(item)
        # Where the next is there already nothing waits, and nobody else would have a turn.
        await asyncio.sleep(0)
        return item

    async def aclose(self) -> None:
        """Close the stream that is read."""
        await self.stream.aclose()
