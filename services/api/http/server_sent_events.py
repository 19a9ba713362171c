"""Runs as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from litestar.response import Stream
from litestar.types import Receive, Scope, Send

from libs.contracts.agent.stream_chunks import NUMBER_MAX, OPENING_NUMBER
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta import response_and_stream_events
from libs.contracts.letta.enums import MessageType, StopReasonType
from libs.contracts.letta.messages import Envelope, only_types
from services.api.adapters.conversations.run_follower import Ended, RunFollower, StreamedChunk
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import Api, api_of
from services.api.http.request_parsing import AnyRequest, whole_number


@dataclass(frozen=True, slots=True)
class Showing:
    """The form in which a client is shown a run. `numbered`: the events carry a `seq_id`, as those
    of a background run do. `look_first`: the run may be an older one."""

    numbered: bool
    pings: bool = True
    look_first: bool = False
    types: Sequence[MessageType] | None = None


def last_event(request: AnyRequest) -> int:
    """The number of the last event that the client has seen, as its headers say; 0 if they do
    not."""
    value = request.headers.get("last-event-id", "")
    if not value:
        return 0
    number = whole_number(value)
    if number is None or number > NUMBER_MAX:
        detail = "`Last-Event-ID` must be the `id` of an event of this stream: a number"
        raise Problem(422, {"detail": detail})
    return number


HEADERS = [
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
    (b"content-type", b"text/event-stream; charset=utf-8"),
]


class ChunkStream(Stream):
    """An answer that is sent as it is made, until its client is gone; with a `place` it begins once
    that is free. Afterwards `ended` is called: also if the client left before the first chunk, or
    reads none."""

    def __init__(
        self,
        chunks: AsyncGenerator[bytes],
        head: Sequence[tuple[bytes, bytes]] = HEADERS,
        *,
        place: AbstractAsyncContextManager[None] | None = None,
        ended: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.chunks = chunks
        self.head = head
        self.place = place or nullcontext()
        self.ended = ended

    def to_asgi_response(self, *_: Any, **__: Any) -> Any:
        """The answer as an application, to be asked once. Litestar's would be two tasks in a
        group for each stream."""
        return self.send_chunks

    async def send_chunks(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Send the chunks until their end, or until the client is gone."""
        try:
            async with until_gone(receive), self.place:
                head = [*self.head]
                await send({"type": "http.response.start", "status": 200, "headers": head})
                async for chunk in self.chunks:
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            await self.chunks.aclose()
            if self.ended is not None:
                await self.ended()


@asynccontextmanager
async def until_gone(receive: Receive) -> AsyncIterator[None]:
    """Cancel the body when the client is gone."""
    clock = asyncio.get_running_loop().time

    async def gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        limit.reschedule(clock())

    leaving = asyncio.ensure_future(gone())
    try:
        async with asyncio.timeout(None) as limit:
            try:
                yield
            finally:
                leaving.cancel()
    except TimeoutError:
        if not limit.expired():
            raise


def events_of(request: AnyRequest, follower: RunFollower, showing: Showing) -> ChunkStream:
    """The answer that a stream is; the follower listens already."""
    return ChunkStream(sse(request, follower, showing), ended=follower.__aexit__)


async def sse(
    request: AnyRequest, follower: RunFollower, showing: Showing
) -> AsyncGenerator[bytes]:
    """The events of a run: a ping with the run's id, the messages, the stop reason, the usage,
    `[DONE]`."""
    api = api_of(request)
    stopping = request.app.state.stopping
    ping_seconds: float = request.app.state.ping_seconds
    try:
        if follower.last_sent < OPENING_NUMBER:
            follower.last_sent = OPENING_NUMBER
            yield numbered_event(OPENING_NUMBER, ping(api, follower, showing))
        spoke_at = api.clock.monotonic()
        async for event in follower.events(look_first=showing.look_first):
            if isinstance(event, StreamedChunk):
                spoke_at = api.clock.monotonic()
                for message in only_types([event.message], showing.types):
                    seq_id = {"seq_id": event.number} if showing.numbered else {}
                    yield numbered_event(event.number, {**message, **seq_id})
            elif isinstance(event, Ended):
                yield closing(follower.run_id, await follower.complete(event))
            elif showing.pings and api.clock.monotonic() - spoke_at >= ping_seconds:
                spoke_at = api.clock.monotonic()
                yield data(ping(api, follower, showing))
            if stopping.is_set():
                return
    finally:
        await follower.__aexit__()


def closing(run_id: str, end: Ended) -> bytes:
    """The last events of a stream; they are known together, and sent so."""
    events = [data(response_and_stream_events.stop_reason(StopReasonType(end.stop_reason)))]
    if end.error:
        problem = response_and_stream_events.error_message(
            run_id,
            str(end.error["error_type"]),
            str(end.error["message"]),
            detail=end.error.get("detail"),
        )
        events.append(b"event: error\n" + data(problem))
    elif end.status != "cancelled":
        events.append(data(end.usage))
    return b"".join([*events, b"data: [DONE]\n\n"])


def ping(api: Api, follower: RunFollower, showing: Showing) -> JsonObject:
    """A keepalive that carries the run's id, and where events are numbered the last number."""
    envelope = Envelope(
        id=api.ids.new("ping"),
        date=api.clock.now(),
        run_id=follower.run_id,
        seq_id=follower.last_sent if showing.numbered else None,
    )
    return response_and_stream_events.ping(envelope)


def numbered_event(number: int, document: JsonObject) -> bytes:
    """One event that a client can resume after."""
    return b"id: %d\n" % number + data(document)


def data(document: JsonObject) -> bytes:
    """One event without a name: SDKs pass over named ones."""
    return b"data: " + json.dumps(document).encode() + b"\n\n"
