"""Files on the way from upload to search: after crashes, in outages, beside others."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import IO, Any

import pytest

from libs.bus.aggregate_locks import AggregateLocks
from libs.bus.command_dispatcher import CommandDispatcher
from libs.bus.ports import IncomingCommand
from libs.contracts.bus_messages import Accepted, Command, Context, Rejected
from libs.contracts.memory.agent_folders import AttachFolder, CloseFiles
from libs.contracts.memory.files import AddFile, DeleteFile
from libs.contracts.memory.folders import CreateFolder, DeleteFolder
from libs.embeddings.hash_embedder import HashEmbedder, OneEmbedder
from libs.embeddings.ports import Embedders, EmbeddingUnavailable, Vector
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.unit_of_work import Repository
from services.memory.adapters.file_parsing.parser import Unparsable
from services.memory.adapters.file_processing_queries import DueFile
from services.memory.adapters.file_texts import lines_of
from services.memory.adapters.uploaded_files import UploadGone
from services.memory.domain.text_segments import Segment
from services.memory.engine import file_processing
from services.memory.engine.file_processing import (
    FILES_OF_ORG_AT_ONCE_MAX,
    FileProcessing,
    FileProcessingPorts,
)
from services.memory.handlers.agent_folders import AgentFoldersHandlers
from services.memory.handlers.files import FileHandlers
from services.memory.handlers.folders import FolderHandlers
from services.memory.handlers.reembedding import ReembeddingHandlers
from services.memory.projections import project
from tests.clock_and_ids import CountingIds, ManualClock
from tests.contract.file_examples import FILE, FOLDER, SHA256
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
        return lines_of([(one.first_line, one.text) for one, *_ in self.rows.values()], first, last)

    async def remove(self, text_id: str) -> None:
        self.rows = {key: row for key, row in self.rows.items() if key[0] != text_id}

    async def unnamed(self, limit: int) -> list[str]:
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
        self.processing = FileProcessing(
            FileProcessingPorts(
                repository=self.repository,
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
        )

    async def opened(self, org: str, file_id: str, size: int, sha256: str) -> IO[bytes]:
        if file_id not in self.uploads:
            raise UploadGone(f"Only 0 of the {size} uploaded bytes are there")
        return io.BytesIO(self.uploads[file_id])

    async def due_files(self, of_org: int, limit: int) -> list[DueFile]:
        now = self.clock.now().isoformat()
        return [
            DueFile(str(row["id"]), str(row["org"]))
            for row in self.schema.rows("files")
            if row["status"] not in ("completed", "error") and str(row["due_at"]) <= now
        ][:limit]

    async def orphans(self, limit: int) -> list[DueFile]:
        known = {row["id"] for row in self.schema.rows("folders")}
        return [
            DueFile(str(row["id"]), str(row["org"]))
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
        """One sweep, and all that it begins."""
        await self.processing.sweep()
        await asyncio.gather(*self.processing.tasks.values(), return_exceptions=True)
        await asyncio.sleep(0)

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


@pytest.fixture
def world() -> World:
    return World()


async def test_a_file_becomes_chunks_in_its_order(world: World) -> None:
    await world.upload(LONG)
    await world.sweep()

    row = world.file()
    assert (row["status"], row["lines"], row["chars"]) == ("completed", 4_000, len(LONG))
    assert row["total_chunks"] == row["chunks_embedded"] == len(world.passages()) > 100
    shown = "\n".join(str(one["text"]) for one in world.passages())
    assert all(f"Line {number} " in shown for number in range(4_000))
    assert await world.texts.lines("org-1", FILE, 3_000, 3_001) == [
        "Line 2999 says what it says.",
        "Line 3000 says what it says.",
    ]


async def test_the_agents_that_see_its_folder_have_a_new_file_open_before_it_is_completed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_processing, "AGENTS_SHOWN_AT_ONCE", 3)
    agents = [f"agent-{n}" for n in range(8)]
    await world.tell(CreateFolder(folder_id=f"{FOLDER}org-1", name="f"))
    for agent_id in agents:
        world.agent(agent_id, files_max=0 if agent_id == "agent-7" else 2)
        await world.tell(AttachFolder(agent_id=agent_id, folder_id=f"{FOLDER}org-1", files_max=2))
    for n in range(3):
        await world.upload(b"some words\n", f"file-{n}")
        await world.sweep()
        assert world.file(f"file-{n}")["status"] == "completed"
    assert world.opened_files() == {one: {"file-1", "file-2"} for one in agents[:7]}
    world.embedder.down = True
    await world.upload(b"some words\n", "file-3")
    await world.sweep()
    assert world.opened_files()["agent-0"] == {"file-2", "file-3"}, "its text is there"
    await world.tell(CloseFiles(agent_id="agent-0", file_ids=["file-3"]))
    world.clock.seconds += 60
    await world.sweep()
    assert world.opened_files()["agent-0"] == {"file-2"}, "it is shown once"


async def test_a_process_that_dies_while_agents_are_shown_a_file_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_processing, "AGENTS_SHOWN_AT_ONCE", 1)
    await world.tell(CreateFolder(folder_id=f"{FOLDER}org-1", name="f"))
    for n in range(4):
        world.agent(f"agent-{n}", files_max=5)
        await world.tell(
            AttachFolder(agent_id=f"agent-{n}", folder_id=f"{FOLDER}org-1", files_max=5)
        )
    await world.upload(b"some words\n")
    commits, show = 0, world.processing.shown

    async def dies(*asked: Any) -> None:
        nonlocal commits
        commits += 1
        if commits == 3:
            raise asyncio.CancelledError
        await show(*asked)

    monkeypatch.setattr(world.processing, "shown", dies)
    await world.sweep()
    assert len(world.opened_files()) == 2
    world.clock.seconds += 60
    world.start()
    await world.sweep()
    assert world.opened_files() == {f"agent-{n}": {FILE} for n in range(4)}
    assert world.file()["status"] == "completed"


async def test_a_file_that_is_deleted_while_it_is_shown_is_nothing_to_anybody(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.tell(CreateFolder(folder_id=f"{FOLDER}org-1", name="f"))
    world.agent("agent-0", files_max=5)
    await world.tell(AttachFolder(agent_id="agent-0", folder_id=f"{FOLDER}org-1", files_max=5))
    await world.upload(b"some words\n")
    show = world.processing.show

    async def deleted_first(*asked: Any) -> None:
        await world.tell(DeleteFile(file_id=FILE, folder_id=f"{FOLDER}org-1"))
        await show(*asked)

    monkeypatch.setattr(world.processing, "show", deleted_first)
    await world.sweep()
    assert world.opened_files() == {}
    assert world.passages() == []


async def test_a_process_that_dies_embeds_nothing_twice(world: World) -> None:
    """After each batch the next process goes on where the last one stood."""
    await world.upload(LONG)
    deaths = 0
    while world.file()["status"] not in ("completed", "error"):
        world.embedder.dies_at = world.embedder.calls + 1
        await world.sweep()
        world.clock.seconds += 60
        world.start()
        deaths += 1

    row = world.file()
    assert row["status"] == "completed"
    assert deaths > 3
    assert world.embedder.texts == row["total_chunks"] == len(world.passages())


async def test_a_model_that_is_down_is_waited_for(world: World) -> None:
    world.embedder.down = True
    await world.upload(b"some words\n")
    for _ in range(3):
        await world.sweep()
        world.clock.seconds += 1
    row = world.file()
    assert row["status"] == "pending"
    assert row["error_message"] == "The model does not answer: is it started?"

    world.embedder.down = False
    world.clock.seconds += 60
    await world.sweep()
    assert (world.file()["status"], world.file()["error_message"]) == ("completed", None)


async def test_a_model_that_stays_down_is_given_up(world: World) -> None:
    world.embedder.down = True
    await world.upload(b"some words\n")
    for _ in range(100):
        await world.sweep()
        world.clock.seconds += 700

    assert world.file()["status"] == "error"
    assert "upload it again" in world.file()["error_message"]


@pytest.mark.parametrize(("data", "words"), [(b"bad", "make it good"), (None, "upload it again")])
async def test_what_cannot_be_read_ends_with_a_reason(
    world: World, data: bytes | None, words: str
) -> None:
    await world.upload(data or b"good")
    if data is None:
        del world.uploads[FILE]
    await world.sweep()

    assert world.file()["status"] == "error"
    assert words in world.file()["error_message"]


@pytest.mark.parametrize("data", [b"good", b"bad"], ids=["readable", "unreadable"])
async def test_a_file_that_is_deleted_while_it_is_read_leaves_nothing(
    world: World, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def delete() -> None:
        await world.tell(DeleteFile(file_id=FILE, folder_id=f"{FOLDER}org-1"))

    monkeypatch.setattr(world.parser, "meanwhile", delete)
    await world.upload(data)
    await world.processing.sweep()
    await asyncio.gather(*world.processing.tasks.values())

    assert world.schema.rows("files") == []
    assert world.passages() == []
    assert FILE not in world.schema.leases


async def test_an_organisation_with_many_files_leaves_room_for_others(world: World) -> None:
    gate = asyncio.Event()
    world.parser.meanwhile = gate.wait  # type: ignore[method-assign, assignment]
    for number in range(FILES_OF_ORG_AT_ONCE_MAX + 3):
        await world.upload(b"words", f"{FILE}{number}")
    await world.processing.sweep()
    assert len(world.processing.tasks) == FILES_OF_ORG_AT_ONCE_MAX
    assert world.processing.has_room("org-2")
    assert not world.processing.has_room("org-1")
    gate.set()
    while going_on := [*world.processing.tasks.values(), *world.processing.followers]:
        await asyncio.gather(*going_on)
        await asyncio.sleep(0)
    assert {row["status"] for row in world.schema.rows("files")} == {"completed"}
    assert not world.processing.places.of_organisation, "nothing is kept of who has no file"


async def test_a_file_that_waits_has_the_place_of_one_that_is_done(world: World) -> None:
    files = [f"{FILE}{number}" for number in range(FILES_OF_ORG_AT_ONCE_MAX * 5)]
    for file_id in files:
        await world.upload(b"words", file_id)
    await world.processing.sweep()
    while going_on := [*world.processing.tasks.values(), *world.processing.followers]:
        await asyncio.gather(*going_on)
        await asyncio.sleep(0)
    assert {world.file(one)["status"] for one in files} == {"completed"}, "in one sweep"


async def test_the_files_of_a_deleted_folder_go_with_it(world: World) -> None:
    await world.upload(LONG)
    await world.upload(b"words", f"{FILE}2")
    await world.sweep()
    await world.tell(DeleteFolder(folder_id=f"{FOLDER}org-1"))
    world.processing.deleted_somewhere()
    await world.sweep()

    assert world.schema.rows("files") == []
    assert world.passages() == []


async def test_a_copy_of_an_upload_waits_for_who_decides_about_its_file(world: World) -> None:
    """A process that stood still has both: a file that is there by now, and the command for it.
    Here the copy says another name, since what this process knows of names is not old."""
    await world.upload(b"some words\n")
    async with world.processing.ports.locks.hold(FILE):
        copy = asyncio.create_task(world.upload(b"some words\n", name="other.txt"))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not copy.done()
    with pytest.raises(AssertionError, match="exists already"):
        await copy


async def test_a_try_of_an_upload_that_began_earlier_replaces_no_file_of_a_later_one(
    world: World,
) -> None:
    begun = [world.clock.now() + timedelta(seconds=seconds) for seconds in range(3)]
    for number, file_id in ((0, "file-0"), (2, "file-2")):
        replaced = await world.upload(
            b"words\n", file_id, name="a.txt", duplicates="replace", begun_at=begun[number]
        )
        assert replaced.result == {"file_id": file_id, "skipped": False}
    late = await world.upload(
        b"words\n", "file-1", name="a.txt", duplicates="replace", begun_at=begun[1]
    )
    assert late.result == {"file_id": "file-2", "skipped": True}
    assert [(row["id"], row["name"]) for row in world.schema.rows("files")] == [("file-2", "a.txt")]
    unknown = await world.upload(b"words\n", "file-3", name="a.txt", duplicates="replace")
    assert unknown.result["skipped"] is False, "of an older api nobody knows when it began"


async def test_a_copy_of_an_upload_that_replaces_does_not_replace_itself(world: World) -> None:
    await world.upload(b"some words\n", duplicates="replace")
    with pytest.raises(AssertionError, match="exists already"):
        await world.upload(b"some words\n", duplicates="replace")
    await world.sweep()
    assert world.file()["status"] == "completed"
