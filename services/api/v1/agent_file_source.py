"""Uploaded files of the retired server as the lines of an import."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from tempfile import TemporaryFile
from typing import BinaryIO

from pydantic_core import from_json, to_json

from libs.contracts.agent_file import Line
from libs.contracts.api.import_errors import BadSource
from libs.contracts.api.imports import LEFT_OUT_KEPT_MAX, EntryError
from services.api.adapters.import_queries import ImportQueries
from services.api.adapters.import_sources import WantedImport
from services.api.adapters.uploaded_lines import UploadedParts, unpack_parts
from services.api.v1.agent_file.agent_file import AgentFile
from services.api.v1.agent_file.agent_file_lines import agent_file_lines
from services.api.v1.agent_file.agent_file_reader import read_file
from services.api.v1.agent_file.entry_problems import AgentFileInvalid, LeftOut
from services.api.v1.agent_file.import_options import ImportOptions, PresentThings

FILE_BYTES_MAX = 1 << 30
LINES_AT_ONCE = 64


class AgentFileSource:
    """Reads agent files, in a thread: what they have may be much."""

    def __init__(self, uploads: UploadedParts, queries: ImportQueries) -> None:
        self.uploads = uploads
        self.queries = queries

    async def lines(self, wanted: WantedImport) -> AsyncGenerator[bytes]:
        """The lines of a file, each with its line feed. Raises BadSource."""
        with TemporaryFile() as copy:
            await self.write(wanted, copy)
            try:
                file = await asyncio.to_thread(read_file, copy)
                present = await self.present(wanted.org, file)
                left_out: list[LeftOut] = []
                lines = agent_file_lines(file, options_of(wanted), present, left_out=left_out)
                while some := await asyncio.to_thread(next_lines, lines):
                    for line in some:
                        yield line
                noted = [EntryError(entry=each.entry, message=each.why) for each in left_out]
                wanted.left_out[:] = noted[:LEFT_OUT_KEPT_MAX]
            except AgentFileInvalid as invalid:
                raise BadSource([error_of(words) for words in invalid.errors]) from None

    async def write(self, wanted: WantedImport, copy: BinaryIO) -> None:
        """Write the file, unpacked, where a thread can read it."""
        size = 0
        async for data in unpack_parts(self.uploads.parts(wanted.org, wanted.import_id)):
            size += len(data)
            if size > FILE_BYTES_MAX:
                raise BadSource.of_file(f"it has over {FILE_BYTES_MAX:,} bytes")
            await asyncio.to_thread(copy.write, data)

    async def present(self, org: str, file: AgentFile) -> PresentThings:
        """What the organisation has of what the file names."""
        tools = await self.queries.tools_by_name(org, file.tool_names)
        return PresentThings(
            tools={name: tool.id for name, tool in tools.items()},
            tool_sources={
                name: from_json(tool.document).get("source_code") for name, tool in tools.items()
            },
            folder_names=frozenset(await self.queries.folder_names(org, file.folder_names)),
            mcp_server_names=frozenset(
                await self.queries.mcp_server_names(org, file.mcp_server_names)
            ),
        )


def options_of(wanted: WantedImport) -> ImportOptions:
    """What the request says, for the reader of such files."""
    said = wanted.options
    return ImportOptions(
        import_id=wanted.import_id,
        now=wanted.requested_at,
        actor=wanted.actor,
        name=said.name,
        append_copy_suffix=said.append_copy_suffix,
        override_existing_tools=said.override_existing_tools,
        tools_accepted=said.accept_tools,
        project_id=said.project_id,
        strip_messages=said.strip_messages,
        secrets=said.secrets or {},
        model=said.model,
    )


def next_lines(lines: Iterator[Line]) -> list[bytes]:
    """Some more lines; none at the end. Raises AgentFileInvalid."""
    return [to_json(line) + b"\n" for line, _ in zip(lines, range(LINES_AT_ONCE), strict=False)]


def error_of(words: str) -> EntryError:
    """An error that names its entry."""
    entry, colon, message = words.partition(": ")
    return (
        EntryError(entry=entry, message=message)
        if colon
        else EntryError(entry="file", message=words)
    )
