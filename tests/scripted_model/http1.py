"""HTTP/1.1 with keep-alive on an asyncio protocol: no task and no stream object per request."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

HEAD_BYTES_MAX = 64 * 1024
BODY_BYTES_MAX = 64 * 1024 * 1024


@dataclass(slots=True)
class Answer:
    """How to answer one request.

    `parts` are the bytes of the response, written `drip_ms` apart, after `delay_ms`. `cut`
    closes the connection behind the last part; `hang` never writes. `done` is called with True
    when everything was written, with False when the client left before.
    """

    parts: list[bytes]
    delay_ms: float = 0
    drip_ms: float = 0
    cut: bool = False
    hang: bool = False
    done: Callable[[bool], None] | None = None


Respond = Callable[[str, str, bytes], Answer]  # (method, target, body)


class Connection(asyncio.Protocol):
    """One client. Answers its requests one after the other, in their order."""

    def __init__(self, respond: Respond, clients: set["Connection"]) -> None:
        self._respond = respond
        self._clients = clients
        self._buffer = bytearray()
        self._answer: Answer | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._last = False  # the client asked to close after this answer
        self._head: tuple[str, str, int, int] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._clients.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._clients.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._answer is not None and self._answer.done is not None:
            self._answer.done(False)
        self._answer = None

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._answer is None:
            self._serve()

    def abort(self) -> None:
        """Drops the client at once."""
        self._transport.abort()

    def _serve(self) -> None:
        while self._answer is None and not self._transport.is_closing():
            request = self._next_request()
            if request is None:
                return
            self._begin(self._respond(*request))

    def _next_request(self) -> tuple[str, str, bytes] | None:
        if self._head is None:
            self._head = self._read_head()
            if self._head is None:
                return None
        method, target, start, end = self._head
        if len(self._buffer) < end:
            return None
        body = bytes(self._buffer[start:end])
        del self._buffer[:end]
        self._head = None
        return method, target, body

    def _read_head(self) -> tuple[str, str, int, int] | None:
        """(method, target, start and end of the body in the buffer), None until it is whole."""
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > HEAD_BYTES_MAX:
                self._refuse(b"431 Request Header Fields Too Large")
            return None
        head = self._buffer[: end + 2].decode("latin-1")
        line, _, fields = head.partition("\r\n")
        words, fields = line.split(" "), "\n" + fields.lower()
        length = _field(fields, "content-length") or "0"
        if len(words) != 3 or not length.isdecimal():
            self._refuse(b"400 Bad Request")
            return None
        if "\ntransfer-encoding:" in fields:
            self._refuse(b"411 Length Required")
            return None
        if int(length) > BODY_BYTES_MAX:
            self._refuse(b"413 Content Too Large")
            return None
        self._last = _field(fields, "connection") == "close" or words[2] == "HTTP/1.0"
        if _field(fields, "expect") == "100-continue":
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return words[0], words[1], end + 4, end + 4 + int(length)

    def _refuse(self, status: bytes) -> None:
        """Answers with this status and closes: where the next request starts is unknown."""
        self._transport.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\n\r\n")
        self._transport.close()

    def _begin(self, answer: Answer) -> None:
        self._answer = answer
        if answer.hang:
            return
        if answer.delay_ms:
            self._later(answer.delay_ms, self._write)
        else:
            self._write()

    def _write(self) -> None:
        answer = self._answer
        assert answer is not None
        if answer.drip_ms and len(answer.parts) > 1:
            self._transport.write(answer.parts.pop(0))
            self._later(answer.drip_ms, self._write)
            return
        self._transport.write(answer.parts[0] if len(answer.parts) == 1 else b"".join(answer.parts))
        self._answer = self._timer = None
        if answer.done is not None:
            answer.done(True)
        if answer.cut or self._last:
            self._transport.close()

    def _later(self, delay_ms: float, act: Callable[[], None]) -> None:
        def wake() -> None:
            act()
            if self._answer is None:
                self._serve()

        self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, wake)


def _field(fields: str, name: str) -> str | None:
    start = fields.find(f"\n{name}:")
    if start < 0:
        return None
    start += len(name) + 2
    return fields[start : fields.index("\r", start)].strip()
