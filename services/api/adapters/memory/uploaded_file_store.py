"""The files that clients are uploading: their bytes as rows, never as a whole in memory."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

from libs.eventstore.connection_pool import Database

PART_BYTES = 256 * 1024
UPLOADS_AT_ONCE_MAX = 16
UPLOADS_OF_ORG_AT_ONCE_MAX = 8
# An upload that is alive has a part more often than this.
ABANDONED_SECONDS = 180
# So long after it came nobody adds a file any more that is not there.
ADDED_SECONDS_MAX = 60
SWEEP_SECONDS = 30.0
PARTS_DELETED_MAX = 64
UPLOADS_SWEPT_MAX = 100

BEGIN = """
insert into api.uploads (file_id, org) values (%s, %s) on conflict (file_id) do nothing
returning seen_at"""
USED = """
select (select coalesce(sum(v.file_size), 0) from memory.file_view v
        where v.org collate "C" = %(org)s)
     + (select coalesce(sum(u.bytes), 0) from api.uploads u
        where u.org collate "C" = %(org)s and not u.complete)"""
# Nothing is added to an upload that was given up: there would be nobody who removes it.
PART = """
with alive as (
    update api.uploads set seen_at = now(), bytes = %(bytes)s
    where file_id = %(file)s and seen_at > '-infinity' returning file_id, org)
insert into api.upload_parts (file_id, number, org, data)
select file_id, %(number)s, org, %(data)s from alive returning number"""
COMPLETE = """
update api.uploads set seen_at = now(), complete = true
where file_id = %s and seen_at > '-infinity' returning file_id"""
# Who is abandoned, and who was read: its file has a text, has failed, or is gone, and no import
# needs it.
DONE = """
select u.file_id from api.uploads u
where (not u.complete and u.seen_at < now() - make_interval(secs => %(seconds)s))
   or (u.complete and u.seen_at < now() - make_interval(secs => %(added)s) and not exists (
        select from memory.file_view f where f.id = u.file_id
        and f.text_id is null and f.status not in ('completed', 'error'))
        and not exists (select from api.imports i where i.id = u.file_id
        and i.completed_at is null))
order by u.seen_at limit %(limit)s"""
GIVE_UP = "update api.uploads set seen_at = '-infinity', complete = false where file_id = %s"
DELETE_PARTS = """
delete from api.upload_parts where file_id = %(file)s and number in (
    select number from api.upload_parts where file_id = %(file)s limit %(limit)s)
returning number"""
DELETE = "delete from api.uploads where file_id = %s"


@dataclass(frozen=True, slots=True)
class UploadLimits:
    """The bytes of a file, and of all files of an organisation together, at most."""

    file_bytes_max: int
    org_bytes_max: int


class TooManyUploads(Exception):
    """There is no room for one more now."""


class UploadTooLarge(Exception):
    """It will not be taken; the words say why, and what to do."""


class UploadKnown(Exception):
    """The same upload is under way, or was made."""


class UploadAbandoned(Exception):
    """So long nothing came that what had come was removed."""


class Upload:
    """One file that comes: `write` what came, then `finish`. It began at `begun_at`, by the clock
    of the database."""

    def __init__(
        self, database: Database, file_id: str, begun_at: datetime, room: int, why: str
    ) -> None:
        self.database = database
        self.file_id = file_id
        self.begun_at = begun_at
        self.room = room
        self.why = why
        self.buffer = bytearray()
        self.digest = hashlib.sha256()
        self.size = 0
        self.parts = 0

    @property
    def sha256(self) -> str:
        """The digest of all that was written."""
        return self.digest.hexdigest()

    async def write(self, data: bytes | bytearray) -> None:
        """More of the file. Raises UploadTooLarge and UploadAbandoned."""
        self.size += len(data)
        if self.size > self.room:
            raise UploadTooLarge(self.why)
        self.buffer += data
        while len(self.buffer) >= PART_BYTES:
            await self.keep(PART_BYTES)

    async def keep(self, size: int) -> None:
        """Write the next part, of so many bytes, as a row. Raises UploadAbandoned."""
        part = bytes(self.buffer[:size])
        del self.buffer[:size]
        self.digest.update(part)
        values = {"file": self.file_id, "number": self.parts, "data": part, "bytes": self.size}
        if not await self.database.fetch(PART, values):
            raise UploadAbandoned
        self.parts += 1

    async def finish(self) -> None:
        """The file is whole. Raises UploadAbandoned."""
        if self.buffer:
            await self.keep(len(self.buffer))
        if not await self.database.fetch(COMPLETE, [self.file_id]):
            raise UploadAbandoned


class Uploads:
    """All uploads of one process."""

    def __init__(self, database: Database, limits: UploadLimits) -> None:
        self.database = database
        self.limits = limits
        self.by_org: Counter[str] = Counter()

    @asynccontextmanager
    async def turn(self, org: str) -> AsyncIterator[None]:
        """A place among those who upload. Raises TooManyUploads."""
        if (
            self.by_org[org] >= UPLOADS_OF_ORG_AT_ONCE_MAX
            or self.by_org.total() >= UPLOADS_AT_ONCE_MAX
        ):
            raise TooManyUploads
        self.by_org[org] += 1
        try:
            yield
        finally:
            self.by_org[org] -= 1

    async def begin(self, org: str, file_id: str, announced: int) -> Upload:
        """A new upload, of about so many bytes. Raises UploadTooLarge and UploadKnown."""
        row = await self.database.fetch_one(USED, {"org": org})
        used = int(row[0]) if row else 0
        left, most = self.limits.org_bytes_max - used, self.limits.file_bytes_max
        why = (
            f"The file is larger than {most:,} bytes (HEELER_FILE_MIB_MAX): upload it in parts"
            if most <= left
            else f"All files together may have {self.limits.org_bytes_max:,} bytes"
            f" (HEELER_FILES_MIB_MAX), and have {used:,}: delete some first"
        )
        room = min(left, most)
        if announced > room + PART_BYTES:
            raise UploadTooLarge(why)
        begun = await self.database.fetch_one(BEGIN, [file_id, org])
        if begun is None:
            raise UploadKnown(file_id)
        return Upload(self.database, file_id, begun[0], room, why)

    async def discard(self, file_id: str) -> None:
        """Remove what was uploaded of a file, some parts at a time. Safe to repeat, and while
        somebody still writes to it: from now on nothing is taken."""
        await self.database.fetch(GIVE_UP, [file_id])
        values = {"file": file_id, "limit": PARTS_DELETED_MAX}
        while len(await self.database.fetch(DELETE_PARTS, values)) == PARTS_DELETED_MAX:
            pass
        await self.database.fetch(DELETE, [file_id])

    async def turn_of_sweep(self) -> None:
        """Remove what nobody will read any more."""
        await asyncio.sleep(SWEEP_SECONDS)
        await self.sweep()

    async def sweep(self) -> None:
        """Remove the parts of uploads that are abandoned, or whose files are read."""
        values = {
            "seconds": ABANDONED_SECONDS,
            "added": ADDED_SECONDS_MAX,
            "limit": UPLOADS_SWEPT_MAX,
        }
        for (file_id,) in await self.database.fetch(DONE, values):
            await self.discard(file_id)
