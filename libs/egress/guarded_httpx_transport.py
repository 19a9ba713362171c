"""Transport of httpx2 clients to clients' addresses: checked as `GuardedHttp` checks them, and
bounded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable

import httpcore2
import httpx2

from libs.egress.address_guard import AddressGuard
from libs.egress.checked_addresses import checked_addresses, trusted_certificates
from libs.egress.failures import Forbidden, Unreachable

CONNECTIONS_MAX = 32
KEPT_ALIVE_MAX = 4
KEPT_ALIVE_SECONDS = 30.0
EVENT_STREAM = "text/event-stream"
# Of a stream of events, which has no end: so much in so long.
STREAM_BYTES_MAX = 16 << 20
STREAM_SECONDS = 10.0


class GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Connects to nothing but what was checked."""

    def __init__(self, guard: AddressGuard) -> None:
        self.guard = guard
        self.sockets = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """A connection to the first address of a host that takes one. Raises Forbidden."""
        try:
            async with asyncio.timeout(timeout):
                addresses = await checked_addresses(self.guard, host, port)
        except TimeoutError:
            raise httpcore2.ConnectTimeout(f"{host} was not found in time") from None
        except Unreachable as unknown:
            raise httpcore2.ConnectError(str(unknown)) from unknown
        for address in addresses[:-1]:
            try:
                return await self.sockets.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return await self.sockets.connect_tcp(
            addresses[-1], port, timeout, local_address, socket_options
        )

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Refuse: raises Forbidden for every path."""
        raise Forbidden("it is a socket of this machine")

    async def sleep(self, seconds: float) -> None:
        """Wait for so many seconds."""
        await asyncio.sleep(seconds)


class GuardedTransport(httpx2.AsyncHTTPTransport):
    """A transport of httpx2 that asks what the guard lets pass, without a proxy, and reads up to a
    bound. `on_status` is told the status of each answer."""

    def __init__(
        self,
        guard: AddressGuard,
        *,
        answer_bytes_max: int,
        on_status: Callable[[int], None] = lambda _: None,
    ) -> None:
        super().__init__(verify=trusted_certificates(), trust_env=False)
        self.guard = guard
        self.answer_bytes_max = answer_bytes_max
        self.on_status = on_status
        # The one of httpx2 takes no network backend, which is where names become addresses.
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=trusted_certificates(),
            max_connections=CONNECTIONS_MAX,
            max_keepalive_connections=KEPT_ALIVE_MAX,
            keepalive_expiry=KEPT_ALIVE_SECONDS,
            network_backend=GuardedBackend(guard),
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The answer, whose body may be too large to be read to its end. Raises Forbidden."""
        self.guard.check_address(str(request.url))
        # What is compressed may be a thousand times of what came.
        request.headers["Accept-Encoding"] = "identity"
        response = await super().handle_async_request(request)
        self.on_status(response.status_code)
        if response.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
            await response.aclose()
            raise httpx2.StreamError("the answer is compressed, which was not asked for")
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        if response.headers.get("content-type", "").lower().startswith(EVENT_STREAM):
            response.stream = BoundedStream(response.stream, STREAM_BYTES_MAX, STREAM_SECONDS)
        else:
            response.stream = BoundedStream(response.stream, self.answer_bytes_max)
        return response


class BoundedStream(httpx2.AsyncByteStream):
    """A body of which so many bytes are read, in all or in each stretch of time. Raises
    StreamError."""

    def __init__(
        self, stream: httpx2.AsyncByteStream, bytes_max: int, seconds: float | None = None
    ) -> None:
        self.stream = stream
        self.bytes_max = bytes_max
        self.seconds = seconds

    async def __aiter__(self) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        room, until = self.bytes_max, loop.time() + (self.seconds or 0)
        async for chunk in self.stream:
            if self.seconds is not None and loop.time() > until:
                room, until = self.bytes_max, loop.time() + self.seconds
            room -= len(chunk)
            if room < 0:
                raise httpx2.StreamError(f"the answer has more than {self.bytes_max} bytes")
            yield chunk

    async def aclose(self) -> None:
        """Close the stream that is read."""
        await self.stream.aclose()
