"""Transport of requests to a provider and of its answers: JSON over HTTP, whole or as events."""

from __future__ import annotations

import asyncio
import json
import re
from abc import ABC, abstractmethod
from codecs import BOM_UTF8
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    aclosing,
    contextmanager,
    suppress,
)
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from libs.contracts.bus_messages import Json, JsonObject

# How long a provider may be silent, and how long an answer may take that comes drop by drop.
REQUEST_SECONDS_MAX = 600.0
CALL_SECONDS_MAX = 900.0
CONNECT_SECONDS_MAX = 10.0
LIST_SECONDS_MAX = 5.0

# Unpacked. An event is some hundred bytes for each token, so streams are longer than what they say.
ANSWER_BYTES_MAX = 16 * 2**20
STREAM_BYTES_MAX = 64 * 2**20
LINE_BYTES_MAX = 8 * 2**20
LIST_BYTES_MAX = 8 * 2**20
ERROR_BYTES_MAX = 2**16

# Of an error that is no JSON: a page of a proxy may be long.
WORDS_MAX = 500

# How the lines of a stream of events begin, and end.
EVENT_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")
LINE_END = re.compile(rb"\r\n|\n|\r")
BEGINNING_BYTES = 64

# Statuses that may be gone when it is asked again; so may all from 500 on.
PASSING_STATUSES = (408, 409, 429)


class Refused(Exception):
    """The provider answered with an HTTP error."""

    def __init__(self, status: int, headers: Mapping[str, str], text: str) -> None:
        super().__init__(f"{status}: {text[:WORDS_MAX]}")
        self.status = status
        self.headers = headers
        self.text = text

    @property
    def body(self) -> Json:
        """The JSON body of an error; None if it is no JSON."""
        with suppress(ValueError):
            body: Json = json.loads(self.text)
            return body
        return None

    @property
    def passing(self) -> bool:
        """Whether it makes sense to try again: as the provider says, else by the status."""
        word = self.headers.get("x-should-retry", "")
        if word in ("true", "false"):
            return word == "true"
        return self.status in PASSING_STATUSES or self.status >= 500

    @property
    def pause(self) -> float | None:
        """Seconds to wait before another try, if the provider says how long."""
        with suppress(ValueError):
            return float(self.headers.get("retry-after-ms", "")) / 1_000
        said = self.headers.get("retry-after", "")
        with suppress(ValueError):
            return float(said)
        with suppress(ValueError, TypeError, OverflowError):
            date = parsedate_to_datetime(said)
            at = date if date.tzinfo else date.replace(tzinfo=UTC)
            return (at - datetime.now(UTC)).total_seconds()
        return None


class Lost(Exception):
    """No answer, or none to its end. `late`: the server was there, but took too long; `cut`: it
    ended the answer in the middle."""

    def __init__(self, cause: BaseException, *, late: bool = False, cut: bool = False) -> None:
        super().__init__(f"{type(cause).__name__}: {cause}")
        self.late = late
        self.cut = cut
        self.why = str(cause)


class TooLong(Exception):
    """More was sent than any answer has."""


@dataclass(frozen=True, slots=True)
class ProviderRequest:
    """A request, and how much of an answer it may get in how long."""

    method: str
    path: str
    bytes_max: int
    seconds_max: float
    content: bytes | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


class EventReader:
    """The data of server-sent events, from chunks as they come.

    Lines end where the format says so, not at each character that Unicode calls an end of line:
    those stand in JSON as they are. A server that was asked for a stream may answer with one body,
    and the other way round: what does not begin as events do is one chunk of data, the whole.
    """

    def __init__(self) -> None:
        self.rest = bytearray()
        self.event: list[bytes] = []
        self.event_bytes = 0
        self.is_stream: bool | None = None
        self.is_error = False
        self.ended_in_cr = False

    def read(self, chunk: bytes) -> Iterator[bytes]:
        """The data of the events that this chunk ends. Raises TooLong."""
        self.rest += chunk
        if self.is_stream is None:
            self.is_stream = begins_a_stream(self.rest)
            if self.is_stream:
                self.rest = self.rest.removeprefix(BOM_UTF8).lstrip()
        if not self.is_stream:
            if len(self.rest) > ANSWER_BYTES_MAX:
                raise TooLong(f"more than {ANSWER_BYTES_MAX} bytes")
            return
        if b"\n" not in chunk and b"\r" not in chunk:
            if len(self.rest) > LINE_BYTES_MAX:
                raise TooLong(f"a line of more than {LINE_BYTES_MAX} bytes")
            return
        if self.ended_in_cr and self.rest.startswith(b"\n"):
            del self.rest[:1]
        self.ended_in_cr = self.rest.endswith(b"\r")
        *lines, self.rest = map(bytearray, LINE_END.split(self.rest))
        for line in lines:
            yield from self.line(bytes(line))

    def line(self, line: bytes) -> Iterator[bytes]:
        """The data of the events that end with this line: with an empty one, or, where a server
        leaves those out, with data behind data that is whole. Without data there is no event."""
        if line.startswith(b"data:"):
            data = line[len(b"data:") :].strip()
            if data and self.event and not goes_on(self.event, data):
                yield from self.ended_event()
            if data:
                self.add(data)
        elif line.startswith(b"event:"):
            self.is_error = line[len(b"event:") :].strip() == b"error"
        elif line.startswith(b"{") or not line:
            yield from self.ended_event()
            if line:  # an error that was written into the stream as it is
                self.add(line)

    def add(self, data: bytes) -> None:
        """One more line of the data of an event. Raises TooLong."""
        self.event.append(data)
        self.event_bytes += len(data) + 1
        if self.event_bytes > LINE_BYTES_MAX:
            raise TooLong(f"an event of more than {LINE_BYTES_MAX} bytes")

    def ended_event(self) -> Iterator[bytes]:
        """The data of the event that ends here, if it has any."""
        data = b"\n".join(self.event).strip()
        self.event, self.event_bytes = [], 0
        if data:
            yield as_error(data) if self.is_error else data
            self.is_error = False

    def end(self) -> Iterator[bytes]:
        """The bytes left when the stream ended: some servers leave out the last end of a line."""
        if self.is_stream:
            yield from self.line(bytes(self.rest))
        else:
            self.event.append(bytes(self.rest))
        self.rest.clear()
        yield from self.ended_event()


def begins_a_stream(head: bytearray) -> bool | None:
    """Whether a body is a stream of events, by its first bytes, not by its content type: servers
    and proxies in front of them get that wrong. None where that cannot be said yet."""
    if BOM_UTF8.startswith(head):
        return None
    first = bytes(head[:BEGINNING_BYTES]).removeprefix(BOM_UTF8).lstrip()
    if first.startswith(EVENT_FIELDS):
        return True
    return None if any(field.startswith(first) for field in EVENT_FIELDS) else False


def as_error(data: bytes) -> bytes:
    """The data of an event that is named an error, in the form that says so in the data."""
    try:
        said = json.loads(data)
    except (ValueError, RecursionError):
        said = data.decode(errors="replace")
    is_one = isinstance(said, dict) and (said.get("error") or said.get("type") == "error")
    return data if is_one else json.dumps({"type": "error", "error": said}).encode()


def goes_on(event: Sequence[bytes], data: bytes) -> bool:
    """Whether more data belongs to the same JSON object: no line ends inside a text, and of what
    may stand behind a brace, nothing begins an object."""
    return event[0].startswith(b"{") and (not event[-1].endswith(b"}") or data[0] in b",]}")


def events_in(body: bytes) -> Iterator[bytes]:
    """The data of the events of an answer that came whole, or all of it where it is no stream."""
    reader = EventReader()
    yield from reader.read(body)
    yield from reader.end()


async def limit_chunks(
    chunks: AsyncIterator[bytes], *, bytes_max: int, deadline: float
) -> AsyncGenerator[bytes]:
    """The same chunks. Raises TimeoutError after `deadline` on the event loop's clock, and TooLong
    after `bytes_max` bytes."""
    read = 0
    while True:
        async with asyncio.timeout_at(deadline):
            try:
                chunk = await anext(chunks)
            except StopAsyncIteration:
                return
        read += len(chunk)
        if read > bytes_max:
            raise TooLong(f"more than {bytes_max} bytes")
        yield chunk


async def beginning(chunks: AsyncIterator[bytes]) -> str:
    """As much of an error as is worth reading."""
    read = bytearray()
    async for chunk in chunks:
        read += chunk
        if len(read) >= ERROR_BYTES_MAX:
            break
    return read[:ERROR_BYTES_MAX].decode(errors="replace")


class Wire(ABC):
    """The way to one provider. Every method raises Refused, Lost and TooLong, and tries once."""

    call_seconds_max: float

    @abstractmethod
    def stream(self, asked: ProviderRequest) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The chunks of an answer, to be read inside the context. Raises Refused and Lost. The
        caller limits how long the answer may take and how large it may become."""

    @abstractmethod
    async def close(self) -> None:
        """Close all open connections; safe to repeat."""

    async def post(self, path: str, content: bytes) -> bytes:
        """The answer to a JSON body, whole."""
        return await self.whole(
            ProviderRequest("POST", path, ANSWER_BYTES_MAX, self.call_seconds_max, content)
        )

    async def get(self, path: str, parameters: JsonObject) -> bytes:
        """The content at a path."""
        return await self.whole(
            ProviderRequest("GET", path, LIST_BYTES_MAX, LIST_SECONDS_MAX, parameters=parameters)
        )

    async def whole(self, asked: ProviderRequest) -> bytes:
        """An answer to its end."""
        read = bytearray()
        with late_as_lost():
            async with asyncio.timeout(asked.seconds_max), self.stream(asked) as chunks:
                async for chunk in chunks:
                    read += chunk
                    if len(read) > asked.bytes_max:
                        raise TooLong(f"more than {asked.bytes_max} bytes")
        return bytes(read)

    async def events(self, path: str, content: bytes) -> AsyncGenerator[bytes]:
        """The data of the server-sent events that answer a JSON body, as they come; one chunk of
        data where the answer is no stream. A caller that stops early closes the stream, and with
        it the connection."""
        reader = EventReader()
        asked = ProviderRequest("POST", path, STREAM_BYTES_MAX, self.call_seconds_max, content)
        deadline = asyncio.get_running_loop().time() + asked.seconds_max
        with late_as_lost():
            async with AsyncExitStack() as stack:
                async with asyncio.timeout_at(deadline):
                    chunks = await stack.enter_async_context(self.stream(asked))
                read = limit_chunks(chunks, bytes_max=asked.bytes_max, deadline=deadline)
                async with aclosing(read):
                    async for chunk in read:
                        for data in reader.read(chunk):
                            yield data
                for data in reader.end():
                    yield data


@contextmanager
def late_as_lost() -> Iterator[None]:
    """An answer that is not there in time is lost."""
    try:
        yield
    except TimeoutError as silence:
        raise Lost(silence, late=True) from silence
