"""The memory service as far as files go, in memory, with processes that may die."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncGenerator
from typing import IO, Any

from libs.bus.aggregate_locks import AggregateLocks
from libs.bus.command_dispatcher import CommandDispatcher
from libs.bus.in_memory import InMemoryBus, InMemoryNetwork
from libs.bus.ports import IncomingCommand
from libs.contracts.bus_messages import Accepted, Command, Context, Rejected
from libs.contracts.memory.files import AddFile
from libs.contracts.memory.folders import CreateFolder
from libs.embeddings.ports import Embedders, EmbeddingUnavailable, Vector
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.unit_of_work import Repository
from libs.work.work_lease import DueWork
from services.memory.adapters.file_parsing.parser import Unparsable
from services.memory.adapters.file_texts import lines_of
from services.memory.adapters.uploaded_files import UploadGone
from services.memory.domain.text_segments import Segment
from services.memory.engine.file_processing import (
    FileProcessing,
    FileProcessingPorts,
)
from services.memory.handlers.agent_folders import AgentFoldersHandlers
from services.memory.handlers.files import FileHandlers
from services.memory.handlers.folders import FolderHandlers
from services.memory.handlers.reembedding import ReembeddingHandlers
from services.memory.policies.deleted_files import DeleteFilesOfDeletedFolders, RemoveUnnamedTexts
from services.memory.projections import project
from tests.clock_and_ids import CountingIds, ManualClock
from tests.contract.file_examples import FILE, FOLDER, SHA256
from tests.hash_embedder import HashEmbedder, OneEmbedder
from tests.leased_work import sweep
from tests.unit.agent_attachments import InMemoryAgentAttachments
from tests.unit.archives import InMemoryArchiveQueries
from tests.unit.folders import InMemoryFolderQueries, not_processed

LONG = "".join(f"Line {number} says what it says.\n" for number in range(4_000)).encode()


class Texts:
    """Keeps the contract of `FileTexts`, in memory."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, int], tuple[Segment, int, int]] = {}

    async def write(
        self, org: str, file_id: str, text_id: str, segment: Segment, first: int, chunks: int
    ) -> bool:
        key = (text_id, segment.number)
        assert key not in self.rows, "a segment is written once"
        self.rows[key] = (segment, first, chunks)
        return True

    async def with_chunk(self, org: str, text_id: str, chunk: int) -> tuple[Segment, int]:
        found = [
            (segment, first)
            for (text, _), (segment, first, chunks) in self.rows.items()
            if text == text_id and first <= chunk < first + chunks
        ]
        return found[0]

    async def lines(self, org: str, file_id: str, first: int, last: int) -> list[str]:
        return lines_of([(row.first_line, row.text) for row, *_ in self.rows.values()], first, last)

    async def remove(self, text_id: str) -> None:
        self.rows = {key: row for key, row in self.rows.items() if key[0] != text_id}

    async def unnamed_texts(self, limit: int, *, recent: bool = False) -> list[str]:
        return []


class Parser:
    """Reads nothing but plain text; something may happen meanwhile."""

    async def meanwhile(self) -> None:
        """Nothing."""

    async def parse(self, kind: str, file: IO[bytes]) -> AsyncGenerator[str]:
        text = file.read().decode()
        await self.meanwhile()
        if text.startswith("bad"):
            raise Unparsable("It is bad: make it good")
        yield text


class Flaky(HashEmbedder):
    """Does not answer while it is `down`; a process may die in the midst of it."""

    down = False
    dies_at = -1

    async def embed(self, texts: Any) -> list[Vector]:
        if self.down:
            raise EmbeddingUnavailable("The model does not answer: is it started?")
        if self.calls == self.dies_at:
            self.dies_at = -1
            raise asyncio.CancelledError
        return await super().embed(texts)


class World:
    """The memory service as far as files go."""

    def __init__(self, embedders: Embedders | None = None) -> None:
        self.clock = ManualClock()
        self.database = InMemoryDatabase(lambda: self.clock.seconds)
        self.schema = self.database.schema("memory")
        self.embedder = Flaky()
        self.embedders = embedders or OneEmbedder(self.embedder)
        self.texts = Texts()
        self.uploads: dict[str, bytes] = {}
        self.parser = Parser()
        self.starts = self.commands = 0
        self.start()

    def start(self) -> None:
        """Begin as a new process, of which nobody knows anything any more."""
        self.starts += 1
        store = InMemoryEventStore(self.database, "memory", f"memory-{self.starts}")
        self.repository = Repository(store, "memory", project)
        queries = InMemoryFolderQueries(self.database)
        ports: Any = type("Ports", (), {})()
        ports.clock = self.clock
        ports.embedders = self.embedders
        ports.archives = InMemoryArchiveQueries(self.database)
        ports.attached = InMemoryAgentAttachments(self.database)
        ports.locks = AggregateLocks()
        ports.folders = queries
        ports.file_added = not_processed
        handlers = {
            **FolderHandlers(ports).table(),
            **FileHandlers(ports).table(),
            **AgentFoldersHandlers(ports).table(),
            **ReembeddingHandlers(ports).table(),
        }
        self.shell = CommandDispatcher(self.repository, handlers)
        processing_ports = FileProcessingPorts(
            repository=self.repository,
            bus=InMemoryBus(InMemoryNetwork()),
            queries=self,
            uploads=self,
            texts=self.texts,
            parser=self.parser,
            embedders=self.embedders,
            locks=ports.locks,
            attached=InMemoryAgentAttachments(self.database),
            clock=self.clock,
            ids=CountingIds(),
            committed=lambda: None,
        )
        self.processing = FileProcessing(processing_ports)
        self.files_cleanup = DeleteFilesOfDeletedFolders(processing_ports, self)
        self.texts_cleanup = RemoveUnnamedTexts(self.texts, self.clock)

    async def open(self, org: str, file_id: str, size: int, sha256: str) -> IO[bytes]:
        if file_id not in self.uploads:
            raise UploadGone(f"Only 0 of the {size} uploaded bytes are there")
        return io.BytesIO(self.uploads[file_id])

    async def due_files(self, of_org: int, limit: int) -> list[DueWork]:
        now = self.clock.now().isoformat()
        return [
            DueWork(str(row["id"]), str(row["org"]))
            for row in self.schema.rows("files")
            if row["status"] not in ("completed", "error") and str(row["due_at"]) <= now
        ][:limit]

    async def orphans(self, limit: int) -> list[DueWork]:
        known = {row["id"] for row in self.schema.rows("folders")}
        return [
            DueWork(str(row["id"]), str(row["org"]))
            for row in self.schema.rows("files")
            if row["folder_id"] not in known
        ][:limit]

    async def tell(self, command: Command, org: str = "org-1") -> Accepted:
        reply = await self.answer(command, org)
        assert isinstance(reply, Accepted), reply
        return reply

    async def answer(self, command: Command, org: str = "org-1") -> Accepted | Rejected:
        self.commands += 1
        name = f"{command.topic}-{self.commands}"
        incoming = IncomingCommand(
            name=f"memory.{command.topic}",
            schema_version=1,
            payload=command.model_dump_json().encode(),
            context=Context(name, org=org),
        )
        return await self.shell.answer(incoming)

    async def upload(
        self, data: bytes, file_id: str = FILE, org: str = "org-1", **how: Any
    ) -> Accepted:
        folder = f"{FOLDER}{org}"
        if folder not in {row["id"] for row in self.schema.rows("folders")}:
            await self.tell(CreateFolder(folder_id=folder, name="f"), org)
        self.uploads[file_id] = data
        command = AddFile(
            file_id=file_id,
            folder_id=folder,
            name=f"{file_id}.txt",
            file_type="text/plain",
            file_size=len(data),
            sha256=SHA256,
        )
        return await self.tell(command.model_copy(update=how), org)

    async def sweep(self) -> None:
        """One sweep, and all that begins thereupon."""
        await self.files_cleanup.sweep()
        await self.texts_cleanup.sweep()
        await sweep(self.processing)

    def file(self, file_id: str = FILE) -> Any:
        [row] = [row for row in self.schema.rows("files") if row["id"] == file_id]
        return row

    def agent(self, agent_id: str, *, files_max: int) -> None:
        """An agent that may have so many files open."""
        agents = self.database.schema("agent").tables.setdefault("agents", {})
        agents[(agent_id,)] = {"id": agent_id, "org": "org-1", "files_max": files_max}

    def opened_files(self) -> dict[str, set[str]]:
        """Which agent has which files open."""
        found: dict[str, set[str]] = {}
        for row in self.schema.rows("open_files"):
            found.setdefault(str(row["agent_id"]), set()).add(str(row["file_id"]))
        return found

    def passages(self) -> list[Any]:
        return sorted(self.schema.rows("passages"), key=lambda row: str(row["created_at"]))
