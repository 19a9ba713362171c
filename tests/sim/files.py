"""Folders and files in the simulated world: clients that upload, hang up, replace and delete, what
reads and embeds their files, and what must hold of them whatever dies in between."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from hashlib import sha256
from types import SimpleNamespace
from typing import IO, TYPE_CHECKING, Any

from pydantic_core import to_json

from libs.contracts.bus_messages import Accepted, Command, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.memory.files import DeleteFile, chunk_id
from libs.contracts.memory.folders import CreateFolder, DeleteFolder
from libs.embeddings.ports import EmbeddingUnavailable, Vector
from libs.eventstore.in_memory_database import InMemorySchema
from services.api.adapters.memory import uploaded_file_store
from services.api.adapters.resource_query_builder import Resource
from services.memory.adapters import file_texts
from services.memory.adapters.file_parsing.parser import Unparsable
from services.memory.domain import chunks, text_segments
from services.memory.domain.chunks import chunks_of, tokens_for
from services.memory.domain.text_segments import TextSegments
from services.memory.engine import file_processing
from services.memory.policies.deleted_files import DeleteFilesOfDeletedFolders, RemoveUnnamedTexts
from tests.hash_embedder import HashEmbedder, OneEmbedder
from tests.sim.plan import FILING, Chore
from tests.sim.store import Client

if TYPE_CHECKING:
    from tests.sim.world import World

# Files are small here: so are the parts that everything is done in, and nobody waits for long.
SMALL: list[tuple[Any, str, int | float]] = [
    (uploaded_file_store, "PART_BYTES", 700),
    (uploaded_file_store, "PARTS_DELETED_MAX", 2),
    (uploaded_file_store, "ABANDONED_SECONDS", 20),
    (uploaded_file_store, "ADDED_SECONDS_MAX", 15),
    (uploaded_file_store, "SWEEP_SECONDS", 5.0),
    (text_segments, "SEGMENT_CHARS_MAX", 900),
    (file_texts, "SEGMENTS_DELETED_MAX", 2),
    (chunks, "CHUNK_TOKENS_MAX", 100),
    (file_processing, "BATCH_CHUNKS", 1),
    (file_processing, "BATCHES_OF_A_TURN", 3),
    (DeleteFilesOfDeletedFolders, "every_seconds", 10.0),
    (RemoveUnnamedTexts, "every_seconds", 10.0),
]
LINES = 80
SENT_BYTES = 500  # at a time
READ_CHARS = 400
READ_SECONDS, EMBED_SECONDS, SENT_SECONDS = 0.1, 0.05, 0.15
AWAY, AWAY_UNTIL_SECONDS = "while the model is away", 15.0
BAD = "bad"
ATTEMPTS_MAX = 40
GIVES_UP_SECONDS, IMPATIENT_ATTEMPTS = 0.2, 3
BOUNDARY = "edge"

type Send = Callable[[str, Command], Awaitable[Accepted | Rejected]]
type Upload = Callable[[Any, str], Awaitable[tuple[int, Any]]]


def folder_id(chore: Chore) -> str:
    """The folder of a chore, which nobody else puts anything into."""
    return derived_id("source", chore.name)


def content(chore: Chore, number: int) -> bytes:
    """The text of the file that a chore uploads as its first, its second, ..."""
    words = {"upload what is bad": BAD, "upload without a model": AWAY}.get(chore.kind, "as it is")
    lines = (f"{words}: line {n} of file {number} of {chore.name}.\n" for n in range(LINES))
    return "".join(lines).encode()


# Who asks


async def file_chore(chore: Chore, send: Send, upload: Upload) -> list[tuple[int, Any]]:
    """Carry out a chore about a folder and its files; what its uploads were answered."""
    folder = folder_id(chore)
    await send(f"{chore.name} made", CreateFolder(folder_id=folder, name=chore.name))
    hangs_up = chore.kind == "upload and hang up"
    first = await answered(chore, 1, upload, attempts=1 if hangs_up else ATTEMPTS_MAX)
    answers = [first]
    match chore.kind:
        case "upload and delete" if first[0] == 200:
            delete = DeleteFile(file_id=first[1]["id"], folder_id=folder)
            await send(f"{chore.name} deleted", delete)
        case "upload and replace" | "upload and drop folder":
            answers.append(await answered(chore, 2, upload, attempts=ATTEMPTS_MAX))
    if chore.kind == "upload and drop folder":
        await send(f"{chore.name} dropped", DeleteFolder(folder_id=folder))
    return answers


async def answered(chore: Chore, number: int, upload: Upload, *, attempts: int) -> tuple[int, Any]:
    """Upload a file until there is an answer that a client takes."""
    status, body = 0, None
    for attempt in range(attempts):
        read: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        work = upload(request_of(chore, number, read), folder_id(chore))
        impatient = chore.kind == "upload and replace" and attempt < IMPATIENT_ATTEMPTS
        try:
            status, body = await (in_time(work, read) if impatient else work)
        except (TimeoutError, ConnectionError):
            status, body = 0, None
        if 0 < status < 500 and status not in (408, 409, 429):
            break
        await asyncio.sleep(1.0)
    return status, body


async def in_time(work: Awaitable[tuple[int, Any]], read: asyncio.Future[None]) -> tuple[int, Any]:
    """What an upload is answered soon after it was read. Raises TimeoutError: by then the api has
    told the memory service of it."""
    async with asyncio.timeout(None) as limit:
        answer = asyncio.ensure_future(work)
        await asyncio.wait([answer, read], return_when=asyncio.FIRST_COMPLETED)
        limit.reschedule(asyncio.get_running_loop().time() + GIVES_UP_SECONDS)
        return await answer


def request_of(chore: Chore, number: int, read: asyncio.Future[None]) -> Any:
    """What the api sees of an upload: a form that comes little by little, and may end too early;
    `read` is done when it has read all."""
    fields = {"duplicate_handling": "replace"} if chore.kind == "upload and replace" else {}
    form = "".join(
        f'--{BOUNDARY}\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    )
    form += f'--{BOUNDARY}\r\ncontent-disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
    body = form.encode() + content(chore, number) + f"\r\n--{BOUNDARY}--\r\n".encode()
    hangs_up = chore.kind == "upload and hang up"

    async def stream() -> AsyncIterator[bytes]:
        for start in range(0, len(body), SENT_BYTES):
            if hangs_up and start > len(body) // 2:
                raise asyncio.CancelledError
            yield body[start : start + SENT_BYTES]
            await asyncio.sleep(SENT_SECONDS)
        if not read.done():
            read.set_result(None)

    return SimpleNamespace(
        headers={
            "x-request-id": chore.name,
            "content-type": f"multipart/form-data; boundary={BOUNDARY}",
        },
        query_params={},
        content_length=len(body),
        stream=stream,
        method="POST",
        url=SimpleNamespace(path=""),
        scope={"state": {}},
    )


class SimReads:
    """As much of `ResourceQueries` as uploads ask for: a folder or a file by its id."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def one(self, resource: Resource, org: str, row_id: str, document: str = "") -> Any:
        def execute() -> bytes | None:
            memory = self.client.server.database.schema("memory")
            rows: list[Any] = memory.rows(f"{resource.view.split('.')[1].removesuffix('_view')}s")
            for row in rows:
                if (row["id"], row["org"]) == (row_id, org):
                    return to_json(
                        {"file_name": row["name"], **row.get("fields", {}), "id": row_id}
                    )
            return None

        return await self.client.ask(execute)


# Who reads and embeds


class SimParser:
    """Keeps the contract of `Parser`: takes its time, and reads nothing that is bad."""

    async def parse(self, kind: str, file: IO[bytes]) -> AsyncGenerator[str]:
        text = file.read().decode()
        for start in range(0, len(text), READ_CHARS):
            await asyncio.sleep(READ_SECONDS)
            if start and text.startswith(BAD):
                raise Unparsable("It is bad: make it good")
            yield text[start : start + READ_CHARS]


class SimEmbedder(HashEmbedder):
    """Takes a moment for chunks of files, and is away for a while for some of them."""

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        if any(" of file " in text for text in texts):
            await asyncio.sleep(EMBED_SECONDS)
        away = asyncio.get_running_loop().time() < AWAY_UNTIL_SECONDS
        if away and any(AWAY in text for text in texts):
            raise EmbeddingUnavailable("The model does not answer: is it started?")
        return await super().embed(texts)


class SimEmbedders(OneEmbedder):
    """One model for everything."""

    def __init__(self, settings: object) -> None:
        super().__init__(SimEmbedder())

    async def aclose(self) -> None:
        """Nothing is open."""


# What must hold


def unfinished_files(world: World) -> list[str]:
    """What is still to be done about files."""
    rows = world.shared.server.file_rows
    if rows is None:
        return []
    memory = rows.database.schema("memory")
    folders = {row["id"] for row in memory.rows("folders")}
    files: list[Any] = memory.rows("files")
    left = [
        f"{row['id']} is {row['status']}"
        for row in files
        if row["status"] not in ("completed", "error")
    ]
    left += [f"{row['id']} of no folder" for row in files if row["folder_id"] not in folders]
    left += [f"the upload of {file_id}" for file_id in rows.uploads]
    texts = {(row["text"], row["file"]) for row in rows.texts.values()}
    left += [f"{text} of {file}, which is gone" for text, file in texts if not rows.file(file)]
    return left


def check_files(world: World) -> Iterator[str]:
    """A file is completed with exactly the chunks of its text, or has failed with a reason; of what
    was deleted, given up or left by its client nothing is there."""
    rows = world.shared.server.file_rows
    if rows is None:
        return
    memory = rows.database.schema("memory")
    chores = [chore for chore in world.plan.chores if chore.kind in FILING]
    contents = {
        sha256(content(chore, number)).hexdigest(): (chore, content(chore, number).decode())
        for chore in chores
        for number in (1, 2)
    }
    there = {str(row["id"]) for row in memory.rows("files")}
    passages: dict[str, list[Any]] = {}
    for passage in memory.rows("passages"):
        if passage.get("file_id"):
            passages.setdefault(str(passage["file_id"]), []).append(passage)
    did = world.ledger.did
    for file_id, events in memory.streams.items():
        if not file_id.startswith("file-"):
            continue
        chore, text = contents[str(events[0].payload["sha256"])]
        did[f"files of {chore.kind!r}"] += 1
        if chore.kind == "upload and hang up":
            yield f"{file_id} was added, though its client hung up before its end"
        if events[-1].topic == "file.deleted":
            did["files deleted"] += 1
            if file_id in there or file_id in passages:
                yield f"{file_id} was deleted, and something of it is there"
            continue
        yield from check_file(rows, file_id, text, passages.pop(file_id, []), did)
    yield from (
        f"passages of {file_id}, which is not there" for file_id in passages if file_id not in there
    )
    yield from (f"parts of {file_id} without an upload" for file_id, _ in rows.parts)
    yield from check_names(memory)
    for chore in chores:
        did["uploads left"] += chore.kind == "upload and hang up"
        yield from check_answers(chore, world.clients.filed.get(chore.name, []), memory, there)


def check_file(
    rows: Any, file_id: str, text: str, passages: list[Any], did: Counter[str]
) -> Iterator[str]:
    """One file that is there."""
    row = rows.file(file_id)
    did[f"files {row['status']}"] += 1
    if row["status"] == "error":
        if not row["error_message"]:
            yield f"{file_id} failed without a reason"
        if passages:
            yield f"{file_id} failed, and has {len(passages)} chunks"
        return
    segments = TextSegments()
    cut = [*segments.feed(text), *segments.end()]
    kept = sorted(
        (text["number"], text["words"])
        for text in rows.texts.values()
        if text["text"] == row["text_id"]
    )
    if kept != [(passage.number, passage.text) for passage in cut]:
        yield f"the text of {file_id} is not the one that was uploaded"
    expected = {
        chunk_id(file_id, number): chunk.text
        for number, chunk in enumerate(
            chunk for segment in cut for chunk in chunks_of(segment, tokens_for(None))
        )
    }
    if {passage["id"]: passage["text"] for passage in passages} != expected:
        yield f"{file_id} has {len(passages)} chunks, not those {len(expected)} of its text"
    if not row["total_chunks"] == row["chunks_embedded"] == len(expected):
        yield f"{file_id} counts {row['chunks_embedded']} of {row['total_chunks']} chunks"


def check_names(memory: InMemorySchema) -> Iterator[str]:
    """Each file has its name alone, and nobody has one who is gone."""
    rows: list[Any] = memory.rows("files")
    names = Counter((row["folder_id"], row["name"]) for row in rows)
    yield from (f"{times} files are called {name}" for name, times in names.items() if times > 1)
    owners = {
        str(events[-1].payload["file_id"])
        for events in memory.streams.values()
        if events[-1].topic == "file_name.taken"
    }
    there = {str(row["id"]) for row in rows}
    yield from (f"{key} has a name, and is gone" for key in sorted(owners - there))
    yield from (f"{key} has no name" for key in sorted(there - owners))


def check_answers(
    chore: Chore, answers: list[tuple[int, Any]], memory: InMemorySchema, there: set[str]
) -> Iterator[str]:
    """What a client was told of is there, unless the client deleted it."""
    told = [body["id"] for status, body in answers if status == 200]
    for file_id in told:
        if file_id not in memory.streams:
            yield f"{chore.name} was told of {file_id}, which was never added"
    stays = {"upload and delete": [], "upload and drop folder": [], "upload and replace": told[1:]}
    for file_id in stays.get(chore.kind, told):
        if file_id not in there:
            yield f"{chore.name} was told of {file_id}, which is not there"
    gone = told[:1] if chore.kind == "upload and delete" else []
    gone += told if chore.kind == "upload and drop folder" else []
    gone += told[:1] if chore.kind == "upload and replace" and len(told) == 2 else []
    yield from (f"{name} of {chore.name} is still there" for name in gone if name in there)
