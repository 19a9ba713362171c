"""Answers that are files, sent as they are made."""

from __future__ import annotations

import re
import zlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager
from urllib.parse import quote

from services.api.http.server_sent_events import ChunkStream

CHUNK_BYTES = 64 * 1024


def download(
    chunks: AsyncGenerator[bytes],
    name: str,
    media_type: str,
    place: AbstractAsyncContextManager[None],
) -> ChunkStream:
    """A file as an answer, which begins when it has its place. When the client is gone nothing more
    of it is made."""
    head = [
        (b"content-type", media_type.encode()),
        (b"content-disposition", attachment(name).encode()),
        (b"cache-control", b"no-store"),
    ]
    return ChunkStream(chunks, head, place=place)


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
