"""Uploads and texts of files as rows of Postgres: who may read them, and that none stays behind."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import pytest

from libs.contracts.bus_messages import DEFAULT_ORG as ORG
from libs.contracts.service_registry import database_role
from libs.eventstore.connection_pool import Database
from services.api.adapters.memory.uploaded_file_store import (
    PART_BYTES,
    UploadAbandoned,
    UploadKnown,
    UploadLimits,
    Uploads,
    UploadTooLarge,
)
from services.memory.adapters.file_processing_queries import PostgresFileProcessingQueries
from services.memory.adapters.file_texts import PostgresFileTexts
from services.memory.adapters.uploaded_files import UploadedFiles, UploadGone
from services.memory.domain.text_segments import Segment
from tests.contract.file_examples import FILE, FOLDER

LIMITS = UploadLimits(file_bytes_max=4 * PART_BYTES, org_bytes_max=6 * PART_BYTES)
DATA = bytes(range(256)) * 2_000  # more than one part
SHA256 = hashlib.sha256(DATA).hexdigest()
OTHER = "file-14141414-1414-4414-8414-141414141414"
ADDED = """
insert into memory.files (id, org, folder_id, created_at, updated_at, name, original_name, status,
    file_type, file_size, due_at)
values (%s, %s, %s, now(), now(), 'a.txt', 'a.txt', 'parsing', 'text/plain', 1, now() + %s)"""


@dataclass
class Store:
    database: Database

    def uploads(self) -> Uploads:
        """Those of another process each time."""
        return Uploads(self.database, LIMITS)

    async def upload(self, file_id: str = FILE, data: bytes = DATA) -> str:
        """Upload a file as a whole; its sha256."""
        upload = await self.uploads().begin(ORG, file_id, len(data))
        await upload.write(data)
        await upload.finish()
        return upload.sha256

    async def add(self, file_id: str = FILE, *, due_in_seconds: int = 0) -> None:
        """What the projection of `file.added` does."""
        interval = f"{due_in_seconds} seconds"
        await self.database.fetch(ADDED, [file_id, ORG, FOLDER, interval])

    async def age(self, seconds: int) -> None:
        """Have so much time go by for uploads and texts."""
        for column in ("api.uploads.seen_at", "memory.file_texts.written_at"):
            table, _, name = column.rpartition(".")
            await self.database.fetch(
                f"update {table} set {name} = {name} - make_interval(secs => %s)", [seconds]
            )

    async def count(self, table: str) -> int:
        [(rows,)] = await self.database.fetch(f"select count(*) from {table}")
        return int(rows)

    async def left(self) -> tuple[int, int]:
        """How many uploads and parts there are."""
        return await self.count("api.uploads"), await self.count("api.upload_parts")


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)


async def test_what_clients_upload_is_read_by_the_memory_service_alone(database: Database) -> None:
    rows = await database.fetch(
        "select rolname from pg_roles where rolname like 'heeler\\_%' and"
        " has_table_privilege(rolname, 'api.upload_part_view', 'select')"
    )
    assert {role for (role,) in rows} == {database_role("memory"), database_role("api")}


async def test_the_bytes_that_came_are_read_back_and_those_that_changed_are_refused(
    store: Store,
) -> None:
    assert await store.upload() == SHA256
    files = UploadedFiles(store.database)
    with await files.open(ORG, FILE, len(DATA), SHA256) as file:
        assert file.read() == DATA

    changed = "set data = overlay(data placing %s from 7) where number = 0"
    await store.database.fetch(f"update api.upload_parts {changed}", [b"!"])
    with pytest.raises(UploadGone, match="have changed in the database: their sha256 is"):
        await files.open(ORG, FILE, len(DATA), SHA256)
    await store.database.fetch("delete from api.upload_parts where number = 1")
    with pytest.raises(UploadGone, match=f"Only {PART_BYTES} of the {len(DATA)} uploaded bytes"):
        await files.open(ORG, FILE, len(DATA), SHA256)


async def test_what_a_process_that_died_left_is_removed_and_its_file_can_come_again(
    store: Store,
) -> None:
    broken = await store.uploads().begin(ORG, FILE, len(DATA))
    await broken.write(DATA)
    with pytest.raises(UploadKnown):
        await store.upload()
    await store.uploads().sweep()
    assert await store.left() == (1, 1), "it may still be alive"

    await store.age(200)
    await store.uploads().sweep()
    assert await store.left() == (0, 0)
    assert await store.upload() == SHA256


async def test_each_upload_knows_when_it_began(store: Store) -> None:
    first = await store.uploads().begin(ORG, FILE, len(DATA))
    second = await store.uploads().begin(ORG, OTHER, len(DATA))
    assert first.begun_at < second.begun_at


async def test_who_was_given_up_adds_nothing_any_more(store: Store) -> None:
    slow = await store.uploads().begin(ORG, FILE, len(DATA))
    await slow.write(DATA)
    await store.age(200)
    await store.uploads().sweep()
    with pytest.raises(UploadAbandoned):
        await slow.write(DATA)
    with pytest.raises(UploadAbandoned):
        await slow.finish()
    assert await store.left() == (0, 0)


async def test_bytes_stay_until_they_are_read_and_go_when_they_are(store: Store) -> None:
    await store.upload()
    await store.upload(OTHER)  # nobody adds this one
    await store.add()
    await store.age(70)
    await store.uploads().sweep()
    assert await store.left() == (1, 2), "the other is removed"

    await store.database.fetch("update memory.files set text_id = 'text-1'")
    await store.uploads().sweep()
    assert await store.left() == (0, 0)


async def test_a_file_and_all_files_have_their_bounds(store: Store) -> None:
    with pytest.raises(UploadTooLarge, match="HEELER_FILE_MIB_MAX"):
        await store.upload(data=bytes(5 * PART_BYTES))
    await store.uploads().discard(FILE)
    await store.upload(data=bytes(4 * PART_BYTES))
    await store.add()
    await store.database.fetch("update memory.files set file_size = %s", [4 * PART_BYTES])
    with pytest.raises(UploadTooLarge, match="delete some first"):
        await store.upload(OTHER, bytes(3 * PART_BYTES))


async def test_no_text_is_kept_for_a_file_that_is_gone_or_has_one(store: Store) -> None:
    texts = PostgresFileTexts(store.database)

    async def write(number: int, text_id: str = "text-1") -> bool:
        segment = Segment(number, number + 1, number + 1, "words\n")
        return await texts.write(ORG, FILE, text_id, segment, number, 1)

    await store.add()
    assert await write(0)
    assert await texts.unnamed_texts(10) == []
    await store.database.fetch("update memory.files set text_id = 'text-1'")
    assert not await write(0, "text-2"), "somebody who lost the lease"

    await store.database.fetch("delete from memory.files")
    assert await texts.unnamed_texts(10) == ["text-1"]
    await texts.remove("text-1")
    assert not await write(1)
    assert await store.count("memory.file_texts") == 0


async def test_a_process_whose_clock_is_wrong_delays_no_file_for_long(store: Store) -> None:
    for number, seconds in enumerate((0, 500, 7_200)):
        await store.add(f"{FILE}-{number}", due_in_seconds=seconds)
    due = await PostgresFileProcessingQueries(store.database).due_files(10, 10)
    assert {file.id for file in due} == {f"{FILE}-0", f"{FILE}-2"}
