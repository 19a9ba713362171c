"""Uploaded files of the retired server as the lines of an import."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from tempfile import NamedTemporaryFile
from typing import IO, Any

from pydantic_core import from_json

from libs.contracts.api.import_errors import BadSource
from libs.contracts.api.imports import EntryError
from libs.work.fork_server import ProcessLimits
from libs.work.limited_processes import LimitedProcesses, LimitReached
from services.api.adapters.agents.import_queries import ImportQueries
from services.api.adapters.agents.import_sources import WantedImport
from services.api.adapters.agents.uploaded_lines import UploadedParts, unpack_parts
from services.api.v1.agent_file.entry_problems import AgentFileInvalid
from services.api.v1.agent_file.file_as_lines import NamesInFile, names_in, write_lines
from services.api.v1.agent_file.import_options import ImportOptions, PresentThings

FILE_BYTES_MAX = 1 << 30
# Each million messages takes minutes; files wait for each other.
LIMITS = ProcessLimits(processor_seconds_max=600, memory_bytes_max=4 << 30)
WAITING_SECONDS_MAX = 1_800.0


def file_processes() -> LimitedProcesses:
    """The processes in which files are read."""
    return LimitedProcesses(names_in.__module__, places=1, waiting_seconds_max=WAITING_SECONDS_MAX)


class AgentFileSource:
    """Reads agent files, in processes with limits: what they have may be much."""

    def __init__(
        self, uploads: UploadedParts, queries: ImportQueries, processes: LimitedProcesses
    ) -> None:
        self.uploads = uploads
        self.queries = queries
        self.processes = processes

    async def lines(self, wanted: WantedImport) -> AsyncGenerator[bytes]:
        """The lines of a file, each with its line feed. Raises BadSource."""
        with NamedTemporaryFile() as copy, NamedTemporaryFile() as written:
            await self.write(wanted, copy)
            named = await self.run(wanted, names_in, copy.name)
            present = await self.present(wanted.org, named)
            options = options_of(wanted)
            noted = await self.run(wanted, write_lines, copy.name, written.name, options, present)
            wanted.left_out[:] = noted
            while line := written.readline():
                yield line

    async def run[T](self, wanted: WantedImport, function: Callable[..., T], *arguments: Any) -> T:
        """The result of a function of a file. Raises BadSource, and NoPlace where too many wait."""
        try:
            return await self.processes.run(function, *arguments, org=wanted.org, limits=LIMITS)
        except AgentFileInvalid as invalid:
            raise BadSource([error_of(words) for words in invalid.errors]) from None
        except LimitReached as impossible:
            raise BadSource.of_file(f"it cannot be read: {impossible}") from None

    async def write(self, wanted: WantedImport, copy: IO[bytes]) -> None:
        """Write the file, unpacked, where a process can read it."""
        size = 0
        async for data in unpack_parts(self.uploads.parts(wanted.org, wanted.import_id)):
            size += len(data)
            if size > FILE_BYTES_MAX:
                raise BadSource.of_file(f"it has over {FILE_BYTES_MAX:,} bytes")
            await asyncio.to_thread(copy.write, data)
        copy.flush()

    async def present(self, org: str, file: NamesInFile) -> PresentThings:
        """The things of the organisation that the file names."""
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
    """The options of the request, for the reader of such files."""
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


def error_of(words: str) -> EntryError:
    """An error that names its entry."""
    entry, colon, message = words.partition(": ")
    return (
        EntryError(entry=entry, message=message)
        if colon
        else EntryError(entry="file", message=words)
    )
