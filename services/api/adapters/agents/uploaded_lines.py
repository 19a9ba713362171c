"""The lines of an uploaded file, unpacked as they are read, one at a time in memory."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator

from libs.contracts.agent_file import LINE_BYTES_MAX, LINES_MAX
from libs.contracts.api.import_errors import BadSource
from libs.eventstore.connection_pool import DatabaseQueries

GZIP = b"\x1f\x8b"
# What all lines together may have: a file of a few MB can unpack to as much as there is.
UNPACKED_BYTES_MAX = 64 << 30
CHUNK_BYTES = 256 * 1024
SLICE_BYTES = 8 * 1024  # of what is packed
GZIP_WINDOW = 31  # says that there is a header
MEMBERS_MAX = 100_000

PART = """
select data from api.upload_parts where file_id = %(file)s and org = %(org)s and number = %(number)s
"""


class UploadedParts(DatabaseQueries):
    """The bytes of uploaded files."""

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
        count = 1  # of the line whose pieces these are
        pieces: list[bytes] = []
        size = 0
        async for data in unpack_parts(self.parts(org, file_id)):
            *ends, rest = data.split(b"\n")
            for end in ends:
                line = b"".join((*pieces, end, b"\n"))
                if len(line) - 1 > LINE_BYTES_MAX or count > LINES_MAX:
                    raise too_large(count)
                yield line
                count, size = count + 1, 0
                pieces.clear()
            if rest:
                pieces.append(rest)
                size += len(rest)
            if size > LINE_BYTES_MAX:
                raise too_large(count)
        if pieces:
            raise BadSource.at_line(count, "it has no line feed: the file is cut off")


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
    unpacker: Unpacker | None = None
    first, total = True, 0
    try:
        async for part in parts:
            if first:
                first = False
                unpacker = Unpacker() if part.startswith(GZIP) else None
            for data in unpacker.chunks(part) if unpacker else [part]:
                total += len(data)
                if total > UNPACKED_BYTES_MAX:
                    raise BadSource.of_file(f"unpacked it has over {UNPACKED_BYTES_MAX:,} bytes")
                if data:
                    yield data
                await asyncio.sleep(0)  # others have something to do too
    except zlib.error:
        raise BadSource.of_file("it is no gzip, or damaged: export or upload it again") from None
    if unpacker is not None and not unpacker.is_whole:
        raise BadSource.of_file("it is cut off: upload it again")


class Unpacker:
    """Unpacks gzip: several members, one after the other, are one file, as they are elsewhere.
    NUL bytes behind a member fill a block up."""

    def __init__(self) -> None:
        self.member = zlib.decompressobj(wbits=GZIP_WINDOW)
        self.members = 1

    @property
    def is_whole(self) -> bool:
        """Whether the latest member is complete."""
        return self.member.eof

    def chunks(self, part: bytes) -> Iterator[bytes]:
        """The unpacked bytes of a part, some at a time. It is unpacked in slices: what is left of
        one is copied at the end of each member in it. Raises BadSource and zlib.error."""
        for at in range(0, len(part), SLICE_BYTES):
            waiting, unpacked = part[at : at + SLICE_BYTES], bytearray()
            while waiting:
                data, waiting = self.next_chunk(waiting)
                unpacked += data
                if len(unpacked) >= CHUNK_BYTES:
                    yield bytes(unpacked)
                    unpacked.clear()
            yield bytes(unpacked)

    def next_chunk(self, waiting: bytes) -> tuple[bytes, bytes]:
        """The next bytes of what waits, and what is left of that. Raises BadSource and
        zlib.error."""
        if self.member.eof:
            waiting = waiting.lstrip(b"\0")
            if not waiting:
                return b"", b""
            self.member, self.members = zlib.decompressobj(wbits=GZIP_WINDOW), self.members + 1
            if self.members > MEMBERS_MAX:
                raise BadSource.of_file(f"it has over {MEMBERS_MAX:,} gzip members: pack it again")
        data = self.member.decompress(waiting, CHUNK_BYTES)
        return data, self.member.unconsumed_tail or self.member.unused_data
