"""The two transports of the SDK that go over HTTP, with the guard of addresses and bounds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from libs.contracts.version import HEELER_VERSION
from libs.egress.address_guard import AddressGuard
from libs.egress.guarded_httpx_transport import GuardedTransport
from services.tools.adapters.mcp.message_repair import RepairedStream
from services.tools.adapters.mcp.ports import McpServerConfig

# An answer, an event or a line; the SSE transport of the SDK has a quarter of it for an event.
REPLY_BYTES_MAX = 4 << 20
WRITE_SECONDS_MAX = 30.0
# A server may be silent for as long as any call takes: whoever asks has a deadline of its own.
SILENCE_SECONDS_MAX = 900.0


class RepairedTransport(GuardedTransport):
    """The same, of bodies that the SDK can read."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = RepairedStream(response.stream)
        return response


def http_client(
    guard: AddressGuard,
    config: McpServerConfig,
    connect_seconds: float,
    on_status: Callable[[int], None],
    *,
    own_auth: httpx2.Auth | None = None,
    **_: Any,
) -> httpx2.AsyncClient:
    """A client for one server. It keeps cookies for this session alone, and asks no proxy."""
    return httpx2.AsyncClient(
        headers={"User-Agent": f"heeler/{HEELER_VERSION}", **config.headers},
        auth=own_auth,
        transport=RepairedTransport(guard, answer_bytes_max=REPLY_BYTES_MAX, on_status=on_status),
        timeout=httpx2.Timeout(
            connect=connect_seconds,
            read=SILENCE_SECONDS_MAX,
            write=WRITE_SECONDS_MAX,
            pool=WRITE_SECONDS_MAX,
        ),
        trust_env=False,
        follow_redirects=False,  # the SDK follows those that stay with the server
    )


@asynccontextmanager
async def http_transport(
    guard: AddressGuard,
    config: McpServerConfig,
    connect_seconds: float,
    on_status: Callable[[int], None],
    own_auth: httpx2.Auth | None = None,
) -> AsyncIterator[TransportStreams]:
    """The messages from and to a server that has an address."""
    client = partial(http_client, guard, config, connect_seconds, on_status, own_auth=own_auth)
    if config.transport == "sse":
        async with sse_client(config.url, httpx_client_factory=client) as streams:
            yield streams
    else:
        async with (
            client() as http,
            streamable_http_client(
                config.url, http_client=http, max_sse_event_size=REPLY_BYTES_MAX
            ) as streams,
        ):
            yield streams
