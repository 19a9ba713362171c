"""Answers that are files, sent as they are made."""

from __future__ import annotations

import re
import zlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any
from urllib.parse import quote

from litestar.response import Stream
from litestar.types import Receive, Scope, Send

from services.api.http.server_sent_events import until_gone

CHUNK_BYTES = 64 * 1024


class Download(Stream):
    """A file as an answer, which begins when it has its place. When the client is gone nothing more
    of it is made."""

    def __init__(
        self,
        chunks: AsyncGenerator[bytes],
        name: str,
        media_type: str,
        place: AbstractAsyncContextManager[None],
    ) -> None:
        self.chunks = chunks
        self.place = place
        self.name = name
        self.kind = media_type

    def to_asgi_response(self, *_: Any, **__: Any) -> Any:
        """The answer as an application, to be asked once."""
        return self.send_chunks

    async def send_chunks(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file until its end, or until the client is gone."""
        head = [
            (b"content-type", self.kind.encode()),
            (b"content-disposition", attachment(self.name).encode()),
            (b"cache-control", b"no-store"),
        ]
        try:
            async with until_gone(receive), self.place:
                await send({"type": "http.response.start", "status": 200, "headers": head})
                async for chunk in self.chunks:
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            await self.chunks.aclose()


def attachment(name: str) -> str:
    """The header that gives a file its name, also where that has other letters than ASCII."""
    plain = re.sub(r"[^\w. -]", "_", name, flags=re.ASCII)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name)}"


async def pack_lines(lines: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """The lines, packed a chunk at a time."""
    pack = zlib.compressobj(6, zlib.DEFLATED, 31)
    ready = bytearray()
    async for line in lines:
        ready += pack.compress(line)
        if len(ready) >= CHUNK_BYTES:
            yield bytes(ready)
            ready.clear()
    yield bytes(ready) + pack.flush()
