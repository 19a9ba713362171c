"""A session with NATS that is kept: what a client asks the services, asked by the supervisor, with
no more of the protocol than that needs, since a client of its own would double its memory."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Mapping
from urllib.parse import unquote, urlsplit
from uuid import uuid4

log = logging.getLogger("heeler.supervisor")

CONNECT_SECONDS_MAX = 3.0
RECONNECT_SECONDS = 0.5
UNSENT_BYTES_MAX = 1 << 20  # NATS reads nothing: what it was asked is lost anyhow

Hear = Callable[[str, bytes], None]


class NatsSession:
    """Publishes, and hands what comes to its inbox to `hear`, with the rest of the subject after
    the inbox. Connects again whenever the connection is lost; what is published meanwhile is lost.
    """

    def __init__(self, url: str, hear: Hear) -> None:
        address = urlsplit(url)
        self._host, self._port = address.hostname or "127.0.0.1", address.port or 4222
        self._user = unquote(address.username or "")
        self._password = unquote(address.password or "")
        self._hear = hear
        self._writer: asyncio.StreamWriter | None = None
        self.inbox = f"_INBOX.{self._user}.{uuid4().hex}"

    async def run(self) -> None:
        """Be connected until this is cancelled."""
        while True:
            with contextlib.suppress(OSError, ValueError, asyncio.IncompleteReadError):
                async with asyncio.timeout(CONNECT_SECONDS_MAX):
                    reader, writer = await asyncio.open_connection(self._host, self._port)
                try:
                    await self._serve(reader, writer)
                finally:
                    self._writer = None
                    writer.close()
            await asyncio.sleep(RECONNECT_SECONDS)

    def publish(
        self, subject: str, payload: bytes, *, reply: str, headers: Mapping[str, str] | None = None
    ) -> bool:
        """Send a message whose answer goes to this part of the inbox; whether there was a
        connection to send it on."""
        writer = self._writer
        if writer is None or writer.transport.get_write_buffer_size() > UNSENT_BYTES_MAX:
            return False
        lines = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        head = f"NATS/1.0\r\n{lines}\r\n".encode() if lines else b""
        sizes = f"{len(head)} {len(head) + len(payload)}" if head else str(len(payload))
        verb = "HPUB" if head else "PUB"
        line = f"{verb} {subject} {self.inbox}.{reply} {sizes}\r\n"
        writer.write(line.encode() + head + payload + b"\r\n")
        return True

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        greeting = {"verbose": False, "pedantic": False, "headers": True, "name": "supervisor"}
        greeting |= {"user": self._user, "pass": self._password}
        hello = f"CONNECT {json.dumps(greeting)}\r\nSUB {self.inbox}.> 1\r\n"
        writer.write(hello.encode())
        self._writer = writer
        while line := await reader.readline():
            if line.startswith(b"PING"):
                writer.write(b"PONG\r\n")
            elif line.startswith(b"-ERR"):
                log.warning("nats refuses the supervisor: %s", line.decode(errors="replace"))
            elif line.startswith((b"MSG ", b"HMSG ")):
                verb, subject, *_, size = line.decode().split()
                head = int(line.split()[-2]) if verb == "HMSG" else 0
                payload = (await reader.readexactly(int(size) + 2))[head:-2]
                self._hear(subject.removeprefix(f"{self.inbox}."), payload)
