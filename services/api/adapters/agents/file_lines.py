"""The texts of the files of folders as lines of the full form."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from pydantic_core import to_json

from libs.contracts.agent_file import FileChunk, FileText
from libs.contracts.bus_messages import JsonObject
from libs.eventstore.connection_pool import DatabaseQueries

FILES_AT_ONCE = 100
PART_CHARS = 256 << 10

FILES = """
select v.id, v.name, v.original_name, v.file_type, v.file_size, v.chars from memory.file_view v
where v.folder_id = %(folder)s and v.org = %(org)s and v.text_id is not null
  and v.id collate "C" > %(after)s order by v.id collate "C" limit %(limit)s"""
SEGMENTS = """
select t.number, t.text from memory.file_text_view t
where t.file_id = %(file)s and t.org = %(org)s and t.number > %(after)s
order by t.number limit 4"""


class FileLines(DatabaseQueries):
    """Reads the texts of files, some segments at a time."""

    async def lines(self, org: str, folders: list[str]) -> AsyncIterator[bytes]:
        """The texts of the files of folders; files that have none yet are left out."""
        for folder_id in folders:
            after = ""
            while True:
                values = {"folder": folder_id, "org": org, "after": after, "limit": FILES_AT_ONCE}
                files = await self.database.fetch(FILES, values)
                for file in files:
                    async for line in self.lines_of(org, folder_id, file):
                        yield line
                if len(files) < FILES_AT_ONCE:
                    break
                after = files[-1][0]

    async def lines_of(
        self, org: str, folder_id: str, file: tuple[Any, ...]
    ) -> AsyncIterator[bytes]:
        """The text of a file, in parts; the first of them says what it is."""
        file_id, name, original_name, file_type, size, chars = file
        value: JsonObject = {
            "name": name,
            "original_name": original_name,
            "file_type": file_type,
            "file_size": size,
            "parts": max(1, -(-chars // PART_CHARS)),
        }
        number, text = 0, ""
        async for segment in self.segments(org, file_id):
            text += segment
            while len(text) >= PART_CHARS:
                part, text = text[:PART_CHARS], text[PART_CHARS:]
                yield line_of(file_id, folder_id, number, value, part)
                number, value = number + 1, {}
        if text or not number:
            yield line_of(file_id, folder_id, number, value, text)

    async def segments(self, org: str, file_id: str) -> AsyncIterator[str]:
        """The segments of the text of a file."""
        after = -1
        while rows := await self.database.fetch(
            SEGMENTS, {"file": file_id, "org": org, "after": after}
        ):
            for number, text in rows:
                yield text
                after = number


def line_of(file_id: str, folder_id: str, number: int, value: JsonObject, text: str) -> bytes:
    """A part of a text as a line."""
    part = FileText(
        file_id=file_id,
        folder_id=folder_id,
        number=number,
        value=value,
        chunks=(FileChunk(text=text),),
    )
    return to_json(part) + b"\n"
