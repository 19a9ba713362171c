"""A lean HTTP/1.1 client: one request at a time on one kept-alive connection, under 0.1 ms each."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import time
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

HEAD_BYTES_MAX = 64 * 1024
LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)
CHUNKED = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked", re.IGNORECASE)
CLOSE = re.compile(rb"\r\nconnection:[ \t]*close", re.IGNORECASE)
# What the official SDK sends; the genuine server shapes its answers by it.
SDK_HEADERS = {"User-Agent": "Letta/Python 1.12.1", "X-Stainless-Package-Version": "1.12.1"}


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a server is, and how a request to it looks on the wire."""

    host: str
    port: int
    prefix: str = ""
    tls: bool = False
    api_key: str = field(default="", repr=False)

    @classmethod
    def of(cls, base_url: str, *, api_key: str = "") -> Origin:
        """The origin of a base URL; raises ValueError if it is not one."""
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{base_url!r} is not a base URL such as http://127.0.0.1:8283")
        tls = parts.scheme == "https"
        port = parts.port or (443 if tls else 80)
        return cls(parts.hostname, port, parts.path.rstrip("/"), tls, api_key)

    def request(self, method: str, path: str, body: object = None) -> bytes:
        """The bytes of a request."""
        payload = b"" if body is None else json.dumps(body).encode()
        host = f"[{self.host}]" if ":" in self.host else self.host
        headers = {"Host": f"{host}:{self.port}", "Accept": "*/*", **SDK_HEADERS}
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        if body is not None:
            headers |= {"Content-Type": "application/json", "Content-Length": str(len(payload))}
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"{method} {self.prefix}{path} HTTP/1.1\r\n{head}\r\n".encode() + payload


@dataclass(frozen=True, slots=True)
class Response:
    """An answer and how long it took, from the request's first byte to the answer's last."""

    status: int
    body: bytes
    seconds: float
    noticed_seconds: float | None = None


class Connection(asyncio.Protocol):
    """One connection, opened when it is needed and again after the server closed it."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.transport: asyncio.Transport | None = None
        self.waiting: asyncio.Future[Response] | None = None
        self.buffer = bytearray()
        self.begin(None)

    async def request(self, request: bytes, notice: re.Pattern[bytes] | None = None) -> Response:
        """Send it and read the whole answer; `notice` is timed when it first stands in the body.

        Raises OSError if there is no connection, or it breaks off.
        """
        await self.open()
        assert self.transport is not None
        assert self.waiting is None, "one request at a time"
        self.waiting = asyncio.get_running_loop().create_future()
        self.begin(notice)
        self.transport.write(request)
        try:
            return await self.waiting
        finally:
            self.waiting = None
            if self.body_end_unknown:
                self.close()

    async def open(self) -> None:
        """Connect unless connected."""
        if self.transport is None or self.transport.is_closing():
            self.buffer.clear()
            tls = ssl.create_default_context() if self.origin.tls else None
            loop = asyncio.get_running_loop()
            await loop.create_connection(lambda: self, self.origin.host, self.origin.port, ssl=tls)

    def close(self) -> None:
        """Drop the connection."""
        if self.transport is not None:
            self.transport.abort()
        self.transport = None

    def begin(self, notice: re.Pattern[bytes] | None) -> None:
        self.notice = notice
        self.noticed_seconds: float | None = None
        self.status, self.length, self.chunked, self.closing = 0, -1, False, False
        self.body = bytearray()
        self.body_end_unknown = True  # until the answer was read to its end
        self.started = time.perf_counter()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # that of uvloop is not a subclass

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if self.waiting is None or self.waiting.done():
            self.close()  # an answer to nothing: nothing that follows could be trusted
            return
        try:
            complete = (self.status or self.read_head()) and self.read_body()
        except ValueError as problem:
            self.waiting.set_exception(OSError(f"not HTTP/1.1: {problem}"))
            return
        if self.notice and self.noticed_seconds is None and self.notice.search(self.body):
            self.noticed_seconds = time.perf_counter() - self.started
        if complete:
            self.finish()

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        if self.waiting is None or self.waiting.done():
            return
        if self.status and not self.chunked and self.length < 0:
            self.finish()
        else:
            self.waiting.set_exception(exc or ConnectionResetError("closed before the answer"))

    # Reading

    def read_head(self) -> int:
        """The status once the head is whole, else 0. Interim answers are skipped."""
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self.buffer) > HEAD_BYTES_MAX:
                raise ValueError("the head is too long")
            return 0
        head = bytes(self.buffer[: end + 2])
        del self.buffer[: end + 4]
        status = int(head[9:12])
        if status < 200:
            return self.read_head()
        length = LENGTH.search(head)
        self.chunked, self.closing = bool(CHUNKED.search(head)), bool(CLOSE.search(head))
        self.length = 0 if status in (204, 304) else int(length[1]) if length else -1
        self.status = status
        return status

    def read_body(self) -> bool:
        """Whether the body is whole."""
        if self.chunked:
            return self.read_chunks()
        if self.length < 0 or len(self.buffer) <= self.length - len(self.body):
            self.body += self.buffer
            self.buffer.clear()
            return len(self.body) == self.length
        raise ValueError("more bytes than the content-length")

    def read_chunks(self) -> bool:
        while (line_end := self.buffer.find(b"\r\n")) >= 0:
            size = int(self.buffer[:line_end].partition(b";")[0], 16)
            start = line_end + 2
            if len(self.buffer) < start + size + 2:
                return False
            self.body += self.buffer[start : start + size]
            del self.buffer[: start + size + 2]
            if size == 0:
                return True
        return False

    def finish(self) -> None:
        assert self.waiting is not None
        self.body_end_unknown = self.closing
        seconds = time.perf_counter() - self.started
        self.waiting.set_result(
            Response(self.status, bytes(self.body), seconds, self.noticed_seconds)
        )
