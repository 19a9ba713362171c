"""FILES: processes die in the middle of an upload, of the reading and embedding of a file, and of
the re-embedding of an archive. Everything goes on from its last commit, or leaves nothing."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import Any

import httpx

from libs.contracts.memory.files import chunk_id
from services.api.adapters.memory.uploaded_file_store import ABANDONED_SECONDS, SWEEP_SECONDS
from tests.chaos.dose import Dose
from tests.chaos.folders import MODEL, OTHER_MODEL, SECONDS_MAX, asked, ended, http, new_folder
from tests.chaos.oracle import Verdict
from tests.chaos.world import Kill, World
from tests.waiting import wait_for

POINTS = (
    "after_commit.file.chunks_embedded",
    "before_commit.file.parsed",
    "after_commit.file.parsed",
    "before_commit.file.chunks_embedded",
    "before_commit.file.completed",
    "after_commit.file.completed",
)
REEMBEDDING_POINTS = ("before_commit.passage.embedded", "after_commit.passage.embedded")
LINES = 1_200  # of a file: some 45 chunks, two batches
PASSAGES = 250  # of an archive: three batches
UPLOADED_BYTES = 3 << 20


async def files_survive(world: World, dose: Dose) -> Verdict:
    """The api dies in an upload, and the memory service at so many points of the rest."""
    await world.restored()
    verdict = Verdict("FILES")
    first_kill = len(world.kills)
    async with http(world) as client:
        await die_in_upload(world, client, verdict)
        await die_in_processing(world, client, verdict, POINTS[: dose.faults])
        await die_in_reembedding(world, client, verdict, REEMBEDDING_POINTS[: dose.faults - 1])
        await nothing_left(world, verdict)
    verdict.kills = len(world.kills) - first_kill
    return verdict


async def upload(
    client: httpx.AsyncClient, folder: str, text: str, name: str = "a.txt"
) -> dict[str, Any]:
    """Upload a file."""
    files = {"file": (name, text.encode(), "text/plain")}
    found: dict[str, Any] = await asked(client, "POST", f"/v1/folders/{folder}/upload", files=files)
    return found


async def whole(
    world: World, client: httpx.AsyncClient, folder: str, file_id: str, text: str
) -> list[str]:
    """What is wrong with a file that should be completed."""
    file = await ended(client, folder, file_id)
    if file["processing_status"] != "completed":
        return [f"{file_id} ended as error: {file['error_message']}"]
    rows = await world.sql(f"select id from memory.passages where file_id = '{file_id}'")
    ids = {str(row) for (row,) in rows}
    expected = {chunk_id(file_id, number) for number in range(file["total_chunks"])}
    found = []
    if file["content"] != text:
        found.append(f"the text of {file_id} is another one")
    if ids != expected or file["chunks_embedded"] != file["total_chunks"]:
        found.append(f"{file_id} has {len(ids)} of {file['total_chunks']} chunks")
    return found


async def die_in_upload(world: World, client: httpx.AsyncClient, verdict: Verdict) -> None:
    """The api is killed when half of a file has come: its client is told nothing, or an error, and
    uploads again."""
    folder = await new_folder(world, client)
    before = await parts(world)
    text = "x" * 99 + "\n"
    body = form("half.txt", text * (UPLOADED_BYTES // len(text)))
    reader, writer = await asyncio.open_connection("127.0.0.1", world.heeler.port)
    head = [
        f"POST /v1/folders/{folder}/upload HTTP/1.1",
        f"host: 127.0.0.1:{world.heeler.port}",
        "content-type: multipart/form-data; boundary=edge",
        f"content-length: {len(body)}",
    ]
    writer.write("\r\n".join([*head, "", ""]).encode() + body[: len(body) // 2])
    await writer.drain()
    await wait_for("half of it came", lambda: came(world, before), SECONDS_MAX)
    await world.kill9("api")
    with contextlib.suppress(OSError):
        answer = await reader.read()
        verdict.check(not answer.startswith(b"HTTP/1.1 2"), f"half a file was taken: {answer!r}")
    writer.close()
    await age_uploads(world)
    listed = await asked(client, "GET", f"/v1/folders/{folder}/files")
    verdict.check(listed == [], f"half a file is listed: {listed}")
    words = "Once more, and whole.\n"
    file = await upload(client, folder, words, "half.txt")
    verdict.wrong += await whole(world, client, folder, file["id"], words)
    verdict.check(file["file_name"].endswith("/half.txt"), f"it is called {file['file_name']}")


async def age_uploads(world: World) -> None:
    """Have the time go by after which an upload is given up."""
    aged = f"set seen_at = seen_at - interval '{ABANDONED_SECONDS + 1} seconds'"
    await world.sql(f"update api.uploads {aged}")


def form(name: str, text: str) -> bytes:
    """A form with a file."""
    head = f'--edge\r\ncontent-disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    return f"{head}{text}\r\n--edge--\r\n".encode()


async def parts(world: World) -> int:
    """How many parts of uploads there are."""
    [(count,)] = await world.sql("select count(*) from api.upload_parts")
    return int(count)


async def came(world: World, before: int) -> bool:
    """Whether parts came since."""
    return await parts(world) > before


async def die_in_processing(
    world: World, client: httpx.AsyncClient, verdict: Verdict, points: Sequence[str]
) -> None:
    """The memory service dies once at each point, with a file of its own; and at any time, with
    another one."""
    folder = await new_folder(world, client)
    text = "".join(f"Line {number} says what it says.\n" for number in range(LINES))
    texts: dict[str, str] = {}
    for number, point in enumerate(points):
        world.arm(point)
        mine = f"{point}\n{text}"
        file = await upload(client, folder, mine, f"{number}.md")
        texts[file["id"]] = mine
        await died(world, point)
    file = await upload(client, folder, text * 20, "long.md")
    texts[file["id"]] = text * 20
    await wait_for(
        "some of it is embedded",
        lambda: world.sql(f"select 1 from memory.passages where file_id = '{file['id']}' limit 1"),
        SECONDS_MAX,
    )
    await world.kill9("memory")
    for file_id, mine in texts.items():
        verdict.wrong += await whole(world, client, folder, file_id, mine)
    await asked(client, "DELETE", f"/v1/folders/{folder}")


async def died(world: World, point: str) -> None:
    """Wait until a process died at a point."""
    await wait_for(f"a process dies at {point}", lambda: world.fired(point), SECONDS_MAX)
    world.kills.append(Kill(time.monotonic(), "memory"))
    await world.healthy()


async def die_in_reembedding(
    world: World, client: httpx.AsyncClient, verdict: Verdict, points: Sequence[str]
) -> None:
    """The memory service dies at commits of passages that another model embeds."""
    body = {"name": world.new_name("FILES"), "embedding": MODEL}
    archive = (await asked(client, "POST", "/v1/archives/", json=body))["id"]
    texts = [{"text": f"Fact {number} of many."} for number in range(PASSAGES)]
    for first in range(0, PASSAGES, 125):
        batch = {"passages": texts[first : first + 125]}
        await asked(client, "POST", f"/v1/archives/{archive}/passages/batch", json=batch)
    for point in points:
        world.arm(point)
    path = f"/v1/archives/{archive}/embedding"
    changed = await asked(client, "PUT", path, json={"embedding": OTHER_MODEL})
    verdict.check(changed["status"] == "running", f"a new model of an archive: {changed}")
    for point in points:
        await died(world, point)

    async def completed() -> dict[str, Any] | None:
        progress: dict[str, Any] = await asked(client, "GET", path)
        return progress if progress["status"] == "completed" else None

    progress = await wait_for(f"{archive} is embedded", completed, SECONDS_MAX)
    verdict.check(progress["embedded"] == PASSAGES, f"after the crashes: {progress}")
    rows = await world.sql(
        "select embedding_model, count(*) from memory.passages"
        f" where collection_id = '{archive}' group by 1"
    )
    verdict.check(rows == [(OTHER_MODEL, PASSAGES)], f"embedded by {rows}")
    search = {"archive_id": archive, "query": "Fact 77 of many."}
    found = await asked(client, "POST", "/v1/passages/search", json=search)
    verdict.check(bool(found), "nothing is found after the crashes")
    await asked(client, "DELETE", f"/v1/archives/{archive}")


async def nothing_left(world: World, verdict: Verdict) -> None:
    """What was given up is removed when its time has come, and so is what was read or deleted."""
    await age_uploads(world)
    began = time.monotonic()
    left = (
        "select (select count(*) from api.upload_parts) + (select count(*) from api.uploads)"
        " + (select count(*) from memory.file_texts t"
        "    where not exists (select from memory.files f where f.id = t.file_id))"
        " + (select count(*) from memory.files f"
        "    where not exists (select from memory.folders d where d.id = f.folder_id))"
    )

    async def none() -> bool:
        return (await world.sql(left)) == [(0,)]

    await wait_for("what nobody reads is removed", none, 3 * SWEEP_SECONDS + SECONDS_MAX)
    verdict.figures["swept_seconds"] = time.monotonic() - began
