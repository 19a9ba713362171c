"""The lines of an uploaded file, unpacked as they are read, one at a time in memory."""

from __future__ import annotations

import zlib
from collections.abc import AsyncGenerator, AsyncIterator

from libs.contracts.agent_file import LINE_BYTES_MAX, LINES_MAX
from libs.contracts.api.import_errors import BadSource
from libs.eventstore.connection_pool import Database

GZIP = b"\x1f\x8b"
# What all lines together may have: a file of a few MB can unpack to as much as there is.
UNPACKED_BYTES_MAX = 64 << 30
CHUNK_BYTES = 256 * 1024

PART = """
select data from api.upload_parts where file_id = %(file)s and org = %(org)s and number = %(number)s
"""


class UploadedParts:
    """The bytes of uploaded files."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def parts(self, org: str, file_id: str) -> AsyncIterator[bytes]:
        """The parts of a file, in order."""
        number = 0
        while True:
            values = {"file": file_id, "org": org, "number": number}
            row = await self.database.fetch_one(PART, values)
            if row is None:
                return
            yield bytes(row[0])
            number += 1

    async def begins_with(self, org: str, file_id: str) -> bytes:
        """The first bytes of a file, unpacked; empty for an empty one."""
        async for part in self.parts(org, file_id):
            async for data in unpack_parts(single(part)):
                return data
        return b""

    async def lines(self, org: str, file_id: str) -> AsyncGenerator[bytes]:
        """The lines of a file, each with its line feed. Raises BadSource."""
        rest, count = b"", 0
        async for data in unpack_parts(self.parts(org, file_id)):
            *whole, rest = (rest + data).split(b"\n")
            for line in whole:
                count += 1
                if len(line) > LINE_BYTES_MAX or count > LINES_MAX:
                    raise too_large(count)
                yield line + b"\n"
            if len(rest) > LINE_BYTES_MAX:
                raise too_large(count + 1)
        if rest:
            raise BadSource.at_line(count + 1, "it has no line feed: the file is cut off")


def too_large(number: int) -> BadSource:
    """The refusal of a line that is too long, or one too many."""
    return BadSource.at_line(
        number, f"a line may have {LINE_BYTES_MAX:,} bytes, and a file {LINES_MAX:,} lines"
    )


async def single(part: bytes) -> AsyncIterator[bytes]:
    """One part, as if it were all."""
    yield part


async def unpack_parts(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The bytes as they are, or unpacked if they are packed, a bounded chunk at a time. Raises
    BadSource."""
    unpack: zlib._Decompress | None = None
    first, total = True, 0
    try:
        async for part in parts:
            if first:
                first = False
                unpack = zlib.decompressobj(wbits=31) if part.startswith(GZIP) else None
            waiting = part
            while waiting:
                data, waiting = next_chunk(unpack, waiting)
                total += len(data)
                if total > UNPACKED_BYTES_MAX:
                    raise BadSource.of_file(f"unpacked it has over {UNPACKED_BYTES_MAX:,} bytes")
                if data:
                    yield data
    except zlib.error:
        raise BadSource.of_file("it is no gzip, or damaged: export or upload it again") from None
    if unpack is not None and not unpack.eof:
        raise BadSource.of_file("it is cut off: upload it again")


def next_chunk(unpack: zlib._Decompress | None, waiting: bytes) -> tuple[bytes, bytes]:
    """The next bytes of a part, and what is left of it. What follows the end of a gzip is left
    out."""
    if unpack is None:
        return waiting, b""
    if unpack.eof:
        return b"", b""
    data = unpack.decompress(waiting, CHUNK_BYTES)
    return data, unpack.unconsumed_tail
