"""HTTP/1.1 as uvicorn speaks it, with limits on what a client may send, and on how slowly.

uvicorn keeps every header that it is sent, however long, waits for the rest of a request without
end, and answers what is no HTTP with plain text (ADR 12).
Here each connection counts the bytes that nothing has come of yet, and has a deadline for whatever
its client owes.
"""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import Any, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from libs.telemetry import metrics
from services.api.http.connection_limits import ConnectionLimits
from services.api.http.password_attempt_limits import Proof
from services.api.http.streamed_request_bodies import is_streamed

# Data is parsed in slices, so a head is refused between this many bytes and one slice less.
HEAD_BYTES_MAX = 32 * 1024
SLICE_BYTES = 8 * 1024
TARGET_BYTES_MAX = 16 * 1024
HEADERS_MAX = 100
PIPELINED_MAX = 16
# A chunk costs the loop about as much as 512 bytes: of so many chunks, so much has to come.
CHUNKS_COUNTED = 2_000
CHUNK_BYTES_MIN = 512
HEAD_SECONDS_MAX = 10.0
BODY_SECONDS_MAX = 60.0
REST_SECONDS_MAX = 5.0
KEEP_ALIVE_SECONDS = 15
UNREAD_SECONDS_MAX = 60.0
# A body that is taken as it comes is in time if so much of it comes within BODY_SECONDS_MAX.
STREAMED_BYTES_MIN = 256 * 1024
LINGER_SECONDS = 2.0
TUNNEL = b"CONNECT"

RETRY_AFTER_SECONDS = 1
HEAD_TOO_LARGE = (
    f"The head of the request is too large: send at most {HEADERS_MAX} headers, and less than "
    f"{HEAD_BYTES_MAX - SLICE_BYTES} bytes of them"
)
TARGET_TOO_LONG = f"The URL is longer than {TARGET_BYTES_MAX} bytes: send less in the query"
TOO_LATE = (
    f"The request did not come whole in time: send the head within {HEAD_SECONDS_MAX:.0f} s and "
    f"the body within {BODY_SECONDS_MAX:.0f} s more"
)
NO_HTTP = "This is not a request of HTTP/1.1"
NO_URL = f"{NO_HTTP}: the URL is malformed; percent-encode what is not ASCII"
CHUNKS_TOO_SMALL = (
    f"The chunks of the body are too small: send at least {CHUNK_BYTES_MIN} bytes in each, on "
    f"average of {CHUNKS_COUNTED:,}"
)
NO_ROOM = "The server has as many connections as it can: try again in a moment"

COALESCED_BYTES_MAX = 64 * 1024


class Refused(Exception):
    """The data that came is refused."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


class LimitedHttp(HttpToolsProtocol):
    """One connection; keeps the contract of `Connection`."""

    def __init__(self, *args: Any, limits: ConnectionLimits, **named: Any) -> None:
        super().__init__(*args, **named)
        self.limits = limits
        self.deadline = 0.0
        self.upload_bytes = 0
        self.unparsed_bytes = 0  # since anything came of what was received
        self.slice_bytes = 0
        self.in_head = False
        self.in_body = False
        self.refused = False
        self.unread = (0, 0.0)  # bytes, and since when there are so many
        self.streamed = False  # whether the body is taken as it comes, and not kept
        self.streamed_bytes = 0  # of it, since the deadline was put off
        self.chunks, self.chunk_bytes = 0, 0  # of those that are counted together
        self.url, self.headers = b"", []
        self.proof = Proof()

    # Connections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client connected: it owes a request."""
        super().connection_made(transport)
        self.writes = CoalescedWrites(transport)
        self.limits.owes(self, HEAD_SECONDS_MAX)
        self.limits.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone: count it no more."""
        self.limits.remove(self)
        super().connection_lost(exc)

    def refuse_for_room(self) -> None:
        self.refuse(503, NO_ROOM)

    def give_way(self) -> None:
        self.refused = True
        self.limits.remove(self)
        self.transport.abort()

    def out_of_time(self) -> None:
        """The client owes something for too long."""
        if self.refused or self.transport.is_closing():
            self.give_way()
        elif self.flow.read_paused:  # by us: it could not send
            self.limits.owes(self, BODY_SECONDS_MAX)
        elif (self.in_head or self.in_body) and self.answerable:
            self.refuse(408, TOO_LATE)
        else:
            self.give_way()

    def unread_bytes(self, now: float) -> int:
        """Bytes that the client has yet to read; cuts it if they stay the same for too long."""
        size = self.transport.get_write_buffer_size()
        known, since = self.unread
        if not size or size != known:
            self.unread = (size, now)
        elif now - since > UNREAD_SECONDS_MAX:
            self.give_way()
            return 0
        return size

    # What comes

    def data_received(self, data: bytes) -> None:
        """Parse what came, slice by slice, until it is refused; drop the rest."""
        self._unset_keepalive_if_required()
        for start in range(0, len(data), SLICE_BYTES):
            if not self.refused:
                self.parse(data[start : start + SLICE_BYTES])

    def parse(self, data: bytes) -> None:
        """Parse the next part of a request."""
        self.slice_bytes = len(data)
        self.unparsed_bytes += len(data)
        try:
            self.parser.feed_data(data)
            self.check_head()
        except HttpParserUpgrade as upgrade:
            self.go_on_without_upgrade(data[upgrade.args[0] :])
        except Refused as refused:
            self.refuse(refused.status, refused.detail)
        except HttpParserError as problem:
            cause = problem.__context__  # what a callback below raised
            if isinstance(cause, Refused):
                self.refuse(cause.status, cause.detail)
            else:
                self.refuse(400, NO_URL if cause else f"{NO_HTTP}: {problem}")

    @property
    def is_asked_to_upgrade(self) -> bool:
        """Whether the parser takes what follows the head for another protocol (WebSocket, HTTP/2),
        so that it would leave out the body."""
        return self.parser.should_upgrade() and self.parser.get_method() != TUNNEL

    def go_on_without_upgrade(self, rest: bytes) -> None:
        """Parse a request again as if it had not asked for another protocol: a server may ignore
        that, and Java's HTTP client asks for it with each request, whose body follows."""
        if not self.is_asked_to_upgrade:  # a tunnel: nothing of this protocol follows
            self.cycle.keep_alive = False
            return
        version = self.parser.get_http_version().encode()
        lines = [b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, version)]
        lines += [b"%s: %s" % header for header in self.headers if header[0] != b"upgrade"]
        self.parser = HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's
        self.parse(b"\r\n".join(lines) + b"\r\n\r\n" + rest)

    def on_message_begin(self) -> None:
        """A request begins; after one that did nothing but wait, its time begins too."""
        super().on_message_begin()
        self.scope["state"]["proof"] = self.proof
        self.unparsed_bytes = self.slice_bytes
        self.in_head = True
        if self.cycle is not None and self.cycle.response_complete:
            self.chunks, self.chunk_bytes = 0, 0
            self.limits.owes(self, HEAD_SECONDS_MAX)

    def on_headers_complete(self) -> None:
        """The head is there. Raises Refused."""
        self.check_head()
        if self.is_asked_to_upgrade:
            return
        super().on_headers_complete()
        self.cycle.transport = cast(asyncio.Transport, self.writes)
        self.in_head, self.in_body = False, True
        self.streamed = is_streamed(self.scope["method"], self.scope["path"])
        self.unparsed_bytes = 0
        if len(self.pipeline) > PIPELINED_MAX:
            raise Refused(400, f"More than {PIPELINED_MAX} requests at once")
        if not self.pipeline:
            self.limits.owes(self, BODY_SECONDS_MAX)

    def check_head(self) -> None:
        """Raise Refused if more came than a head, or the trailer of a body, may have."""
        if len(self.url) > TARGET_BYTES_MAX:
            raise Refused(414, TARGET_TOO_LONG)
        if self.unparsed_bytes > HEAD_BYTES_MAX or len(self.headers) > HEADERS_MAX:
            raise Refused(431, HEAD_TOO_LARGE)

    def on_chunk_header(self) -> None:
        """A chunk of a body begins. Raises Refused."""
        self.chunks += 1
        if self.chunks > CHUNKS_COUNTED:
            if self.chunk_bytes < CHUNKS_COUNTED * CHUNK_BYTES_MIN:
                raise Refused(400, CHUNKS_TOO_SMALL)
            self.chunks, self.chunk_bytes = 0, 0

    def on_body(self, body: bytes) -> None:
        """More of a body came."""
        self.unparsed_bytes = 0
        self.chunk_bytes += len(body)
        super().on_body(body)
        if self.streamed:
            self.renew_body_deadline(len(body))
        elif not self.cycle.response_complete:
            self.limits.count_upload(self, len(body))

    def renew_body_deadline(self, received_bytes: int) -> None:
        """Start the deadline of a streamed body again after each `STREAMED_BYTES_MIN` of it."""
        self.streamed_bytes += received_bytes
        if self.streamed_bytes >= STREAMED_BYTES_MIN and not self.cycle.response_complete:
            self.streamed_bytes = 0
            self.limits.owes(self, BODY_SECONDS_MAX)

    def on_message_complete(self) -> None:
        """The request came whole: it is our turn, if it was not answered before that."""
        if self.is_asked_to_upgrade:
            return
        self.in_body = False
        super().on_message_complete()
        self.limits.upload_ended(self)
        if self.cycle.response_complete:
            self.limits.owes(self, KEEP_ALIVE_SECONDS)
        else:
            self.limits.owes_nothing(self)

    def on_response_complete(self) -> None:
        """The next request is owed, or the rest of this one, which nobody wants any more."""
        self.writes.flush()
        super().on_response_complete()
        if self.transport.is_closing():
            return
        if self.in_body:
            self.limits.owes(self, REST_SECONDS_MAX)
        elif not self.pipeline and self.cycle.response_complete:
            self.limits.owes(self, HEAD_SECONDS_MAX if self.in_head else KEEP_ALIVE_SECONDS)

    # Refusing

    @property
    def answerable(self) -> bool:
        """Whether an answer now would be taken for the answer to what is being sent."""
        if self.cycle is None or self.cycle.response_complete:
            return True
        return self.in_body and not self.pipeline and not self.cycle.response_started

    def refuse(self, status: int, detail: str) -> None:
        """Say why, and leave the client a moment to read it: what it still sends is dropped."""
        self.refused = True
        metrics.HTTP_REQUESTS.labels(metrics.UNKNOWN, metrics.UNKNOWN, status).inc()
        if not self.answerable:
            self.give_way()
            return
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.limits.upload_ended(self)
        self.limits.owes(self, LINGER_SECONDS)
        self.flow.resume_reading()
        self.transport.write(response(status, detail))
        self.transport.write_eof()


def response(status: int, detail: str) -> bytes:
    """A whole answer, for those whose request never reached the application."""
    body = json.dumps({"detail": detail}).encode()
    headers = {
        "content-type": "application/json",
        "content-length": len(body),
        "connection": "close",
        **({"retry-after": RETRY_AFTER_SECONDS} if status == 503 else {}),
    }
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class CoalescedWrites:
    """Stands in for the transport of a connection where answers are written."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.waiting: list[bytes] = []
        self.waiting_bytes = 0

    def write(self, data: bytes) -> None:
        """Write it at the end of this turn, or now if there is much of it."""
        if not self.waiting:
            asyncio.get_running_loop().call_soon(self.flush)
        self.waiting.append(data)
        self.waiting_bytes += len(data)
        if self.waiting_bytes >= COALESCED_BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        """Write what waits. Safe to repeat."""
        if not self.waiting:
            return
        data = b"".join(self.waiting)
        self.waiting, self.waiting_bytes = [], 0
        if not self.transport.is_closing():
            self.transport.write(data)

    def close(self) -> None:
        """Close the connection when everything is written."""
        self.flush()
        self.transport.close()

    def is_closing(self) -> bool:
        """Whether the connection is closed, or about to be."""
        return self.transport.is_closing()
