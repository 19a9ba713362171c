"""One session with one server: a task of its own holds it open, for whoever asks meanwhile."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import Any

import mcp_types
from mcp.client._transport import TransportStreams
from mcp.client.client import Client
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp.shared.message import SessionMessage
from mcp_types import CONNECTION_CLOSED

from libs.contracts.version import HEELER_VERSION
from services.tools.adapters.mcp.failures import (
    failure_of,
    may_be_the_answer,
    session_lost,
    words_of,
)
from services.tools.adapters.mcp.ports import McpFailed, Sampler
from services.tools.adapters.mcp.sampling import SessionSampling
from services.tools.adapters.mcp.unsolicited_message_limits import (
    REFUSED_REQUESTS,
    SAMPLING,
    counted_messages,
)

# How long a session may take to end by itself, and how often it is told.
END_SECONDS_MAX = 2.0
CANCELS_MAX = 4
CANCEL_SECONDS_MAX = 1.0
# How long the reason is waited for when a connection is closed.
REASON_SECONDS_MAX = 1.0
# How long the answer is waited for when the server has said what may be that, broken.
MISHEARD_SECONDS = 5.0
BAD_STATUS = 400
CLIENT = mcp_types.Implementation(name="heeler", version=HEELER_VERSION)


type CheckResult = Callable[[ClientSession, str, mcp_types.CallToolResult], Awaitable[None]]


class McpSession:
    """A session; `open` it first. `used_at` and `requests` say who may end it. Where the server may
    ask models (`samples`) it is told so, and answered while a tool is called."""

    def __init__(
        self,
        transport: Callable[[McpSession], AbstractAsyncContextManager[TransportStreams]],
        version: int,
        *,
        samples: bool = False,
        check: CheckResult | None = None,
    ) -> None:
        self.transport = transport
        self.check = check
        self.version = version
        self.sampling = SessionSampling() if samples else None
        self.client: Client | None = None
        self.requests = 0
        self.unanswered: set[asyncio.Future[McpFailed]] = set()
        self.misheard: asyncio.TimerHandle | None = None
        self.used_at = 0.0
        self.status: int | None = None
        self.failure: McpFailed | None = None
        self.ending = asyncio.Event()
        self.opened = asyncio.Event()
        self.closed = asyncio.Event()
        self.abandoned: set[asyncio.Future[Any]] = set()
        self.task: asyncio.Task[None] | None = None

    async def open(self, seconds: float) -> None:
        """Connect and say hello. Raises McpFailed."""
        self.task = asyncio.create_task(self.hold())
        opened = asyncio.ensure_future(self.opened.wait())
        try:
            await asyncio.wait(
                {self.task, opened}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if not self.opened.is_set():
                words = f"it did not say hello within {seconds:.3g} seconds"
                raise self.failure or McpFailed("timeout", words)
        except BaseException:
            self.abandon(asyncio.ensure_future(self.close()), cancel=False)
            raise
        finally:
            opened.cancel()

    async def hold(self) -> None:
        """Hold the session open until it is to end, or ends by itself."""
        try:
            refused = REFUSED_REQUESTS - {SAMPLING} if self.sampling else REFUSED_REQUESTS
            counted = counted_messages(
                self.transport(self), self.hear, self.end, self.ending.set, refused
            )
            answer = self.sampling.answer if self.sampling else None
            async with Client(
                counted, client_info=CLIENT, cache=None, sampling_callback=answer
            ) as client:
                if self.check is not None:
                    # The SDK compares results with their schemas on the event loop.
                    check = partial(self.check, client.session)
                    vars(client.session)["validate_tool_result"] = check
                self.client = client
                self.opened.set()
                await self.ending.wait()
        except asyncio.CancelledError:
            self.failure = self.failure or McpFailed("unreachable", "the session was ended")
        except Exception as error:  # whatever a foreign server brings the SDK to raise
            self.failure = self.failure or failure_of(error, self.status)
        except BaseExceptionGroup as errors:
            self.failure = self.failure or failure_of(errors, self.status)
        finally:
            self.closed.set()

    def note_status(self, status: int) -> None:
        """Keep the status of an HTTP response if it is a bad one."""
        if status >= BAD_STATUS:
            self.status = status

    def end(self, failure: McpFailed) -> None:
        """End the session, because of what the server does."""
        self.failure = self.failure or failure
        self.ending.set()

    def hear(self, item: SessionMessage | Exception) -> None:
        """Handle a message of the server. A broken message may be the answer to the only request
        under way: it counts as that answer unless another message follows."""
        if self.misheard is not None:
            self.misheard.cancel()
        self.misheard = None
        if isinstance(item, Exception) and len(self.unanswered) == 1 and may_be_the_answer(item):
            [waiting] = self.unanswered
            loop = asyncio.get_running_loop()
            self.misheard = loop.call_later(MISHEARD_SECONDS, answer_misheard, waiting, item)

    @property
    def living(self) -> bool:
        return self.opened.is_set() and not self.ending.is_set() and not self.closed.is_set()

    async def request[T](
        self,
        ask: Callable[[Client], Coroutine[Any, Any, T]],
        seconds: float,
        sampler: Sampler | None = None,
    ) -> T:
        """The server's answer, within so many seconds, whatever the SDK waits for. Raises
        McpFailed."""
        if sampler is None or self.sampling is None:
            return await self.watch_request(ask, seconds)
        with self.sampling.during(sampler):
            return await self.watch_request(ask, seconds)

    async def watch_request[T](
        self, ask: Callable[[Client], Coroutine[Any, Any, T]], seconds: float
    ) -> T:
        """The answer to one request; other messages of the server are handled meanwhile. Raises
        McpFailed."""
        assert self.client is not None
        self.status = None
        asked = asyncio.ensure_future(ask(self.client))
        gone = asyncio.ensure_future(self.closed.wait())
        misheard: asyncio.Future[McpFailed] = asyncio.get_running_loop().create_future()
        self.unanswered.add(misheard)
        self.requests += 1
        try:
            done, _ = await asyncio.wait(
                {asked, gone, misheard}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if asked in done:
                return await self.answer(asked)
            if misheard in done:
                raise misheard.result()
            if gone in done:
                raise self.reason()
            raise McpFailed("timeout", f"it did not answer within {seconds:.3g} seconds")
        finally:
            self.requests -= 1
            self.unanswered.discard(misheard)
            gone.cancel()
            self.abandon(asked)

    async def answer[T](self, asked: asyncio.Future[T]) -> T:
        """The answer, or the reason why there is none."""
        try:
            return asked.result()
        except MCPError as error:
            if error.code == CONNECTION_CLOSED and error.message == "Connection closed":
                with suppress(TimeoutError):
                    async with asyncio.timeout(REASON_SECONDS_MAX):
                        await self.closed.wait()
                raise self.reason() from error
            if lost := session_lost(error, self.status):
                self.end(lost)
                raise lost from error
            raise failure_of(error, self.status) from error
        except Exception as error:  # whatever a foreign server brings the SDK to raise
            raise failure_of(error, self.status) from error

    def reason(self) -> McpFailed:
        """Why the session is no more."""
        return self.failure or McpFailed("unreachable", "it closed the connection")

    async def ping(self, seconds: float) -> None:
        await self.request(ping, seconds)

    def abandon(self, asked: asyncio.Future[Any], *, cancel: bool = True) -> None:
        """Wait no longer for something that may take its time to end."""
        if asked.done():
            return
        if cancel:
            asked.cancel()
        self.abandoned.add(asked)
        asked.add_done_callback(self.forget)

    def forget(self, asked: asyncio.Future[Any]) -> None:
        """Drop a request that nobody waits for any more, with its exception."""
        self.abandoned.discard(asked)
        if not asked.cancelled():
            asked.exception()

    async def close(self) -> None:
        """End it; the server is told, if it listens."""
        self.ending.set()
        if self.task is None:
            return
        if self.opened.is_set():
            await asyncio.wait({self.task}, timeout=END_SECONDS_MAX)
        for _ in range(CANCELS_MAX):
            if self.task.done():
                return
            self.task.cancel()
            await asyncio.wait({self.task}, timeout=CANCEL_SECONDS_MAX)


def answer_misheard(waiting: asyncio.Future[McpFailed], item: Exception) -> None:
    """Have a request fail that was answered with what is no message, if it still waits."""
    if not waiting.done():
        words = f"it answered something that is no MCP: {words_of(item)}"
        waiting.set_result(McpFailed("protocol", words))


async def ping(client: Client) -> None:
    """Ask something that costs a server nothing."""
    session = client.session
    if session.initialize_result is None:
        await session.send_discover(client.protocol_version)
        return
    with warnings.catch_warnings():
        # Later versions of the protocol have none; those sessions are asked the other way.
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        await client.send_ping()
