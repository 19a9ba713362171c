"""The texts of files: rows in segments, written before the event that names them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from libs.eventstore.connection_pool import Database
from services.memory.domain.text_segments import Segment

SEGMENTS_DELETED_MAX = 256
UNNAMED_SECONDS_MAX = 3_600
RECENT_SECONDS_MAX = 3 * UNNAMED_SECONDS_MAX

# Nothing is added for a file that is gone: there would be nobody who removes it. Who deletes it
# waits for this, and what is here then goes with it.
INSERT = """
insert into memory.file_texts
    (text_id, number, org, file_id, first_line, last_line, first_chunk, chunks, text)
select %(text)s, %(number)s, f.org, f.id, %(first_line)s, %(last_line)s, %(first_chunk)s,
    %(chunks)s, %(words)s
from memory.files f where f.id = %(file)s and f.org = %(org)s and f.text_id is null
for key share
returning number"""
WITH_CHUNK = """
select number, first_line, last_line, text, first_chunk from memory.file_texts
where text_id = %(text)s and org = %(org)s and first_chunk <= %(chunk)s and chunks > 0
order by first_chunk desc limit 1"""
LINES = """
select t.first_line, t.text
from memory.files f join memory.file_texts t on t.text_id = f.text_id
where f.id = %(file)s and f.org = %(org)s
  and t.last_line >= %(first)s and t.first_line <= %(last)s
order by t.number"""
UNNAMED = """
select t.text_id from memory.file_texts t
where t.number = 0
  and not exists (select from memory.files f where f.text_id = t.text_id)
  and (t.written_at < now() - make_interval(secs => %(seconds)s)
       or not exists (select from memory.files f where f.id = t.file_id))
limit %(limit)s"""
RECENTLY_UNNAMED = UNNAMED.replace(
    "where t.number = 0",
    "where t.number = 0 and t.written_at > now() - make_interval(secs => %(recent)s)",
)
# The first segment goes last: by it the others are found.
DELETE = """
delete from memory.file_texts where text_id = %(text)s and number in (
    select number from memory.file_texts where text_id = %(text)s
    order by number desc limit %(limit)s)
returning number"""


class FileTexts(Protocol):
    """The texts of all files."""

    async def write(
        self, org: str, file_id: str, text_id: str, segment: Segment, first_chunk: int, chunks: int
    ) -> bool:
        """Keep a segment, with the number of its first chunk and of how many there are in it.
        Returns whether that was any use: False for a file that is gone, or has its text."""

    async def with_chunk(self, org: str, text_id: str, chunk: int) -> tuple[Segment, int]:
        """The segment that a chunk is in, and the number of its first chunk."""

    async def lines(self, org: str, file_id: str, first: int, last: int) -> list[str]:
        """The lines of a file from `first` to `last`, which count from 1 and may be too many."""

    async def remove(self, text_id: str) -> None:
        """Remove a text, some segments at a time."""

    async def unnamed_texts(self, limit: int, *, recent: bool = False) -> list[str]:
        """Ids of texts whose file was deleted, or that no file has named for long; of those that
        were written in the last hours, or of all."""


class PostgresFileTexts:
    """Keeps the contract of `FileTexts`."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def write(
        self, org: str, file_id: str, text_id: str, segment: Segment, first_chunk: int, chunks: int
    ) -> bool:
        row = {
            **{"text": text_id, "number": segment.number, "org": org, "file": file_id},
            **{"first_line": segment.first_line, "last_line": segment.last_line},
            **{"first_chunk": first_chunk, "chunks": chunks, "words": segment.text},
        }
        return bool(await self.database.fetch(INSERT, row))

    async def with_chunk(self, org: str, text_id: str, chunk: int) -> tuple[Segment, int]:
        values = {"text": text_id, "org": org, "chunk": chunk}
        row = await self.database.fetch_one(WITH_CHUNK, values)
        assert row is not None, "a text is there as long as its file"
        return Segment(*row[:4]), row[4]

    async def lines(self, org: str, file_id: str, first: int, last: int) -> list[str]:
        values = {"file": file_id, "org": org, "first": first, "last": last}
        rows = await self.database.fetch(LINES, values)
        return lines_of(rows, first, last)

    async def remove(self, text_id: str) -> None:
        values = {"text": text_id, "limit": SEGMENTS_DELETED_MAX}
        while len(await self.database.fetch(DELETE, values)) == SEGMENTS_DELETED_MAX:
            pass

    async def unnamed_texts(self, limit: int, *, recent: bool = False) -> list[str]:
        values = {
            "limit": limit,
            "seconds": UNNAMED_SECONDS_MAX,
            "recent": RECENT_SECONDS_MAX,
        }
        text = RECENTLY_UNNAMED if recent else UNNAMED
        return [text_id for (text_id,) in await self.database.fetch(text, values)]


def lines_of(segments: Sequence[tuple[Any, ...]], first: int, last: int) -> list[str]:
    """The lines from `first` to `last` of segments that follow each other: each the number of its
    first line, and its text."""
    if not segments:
        return []
    start = segments[0][0]
    text: str = "".join(text for _, text in segments)
    lines = text.removesuffix("\n").split("\n")
    return lines[max(first - start, 0) : last - start + 1]
