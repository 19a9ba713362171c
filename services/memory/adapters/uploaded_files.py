"""What clients uploaded: the parts of a file, read from the view that the api publishes."""

from __future__ import annotations

import hashlib
import tempfile
from typing import IO, Protocol

from libs.eventstore.connection_pool import Database

PART = """
select data from api.upload_part_view
where file_id = %(file)s and org = %(org)s and number = %(number)s"""


class UploadGone(Exception):
    """The bytes of a file are not all there, or not those that were uploaded."""


class UploadedFiles(Protocol):
    """The bytes of files that nobody has parsed yet."""

    async def opened(self, org: str, file_id: str, size: int) -> IO[bytes]:
        """A file of this machine without a name, with all bytes, at its beginning. Raises
        UploadGone."""
        ...


class PostgresUploadedFiles:
    """Keeps the contract of `UploadedFiles`; one part at a time is in memory."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def opened(self, org: str, file_id: str, size: int) -> IO[bytes]:
        """A file of this machine without a name, with all bytes, at its beginning. Raises
        UploadGone."""
        file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            copied = 0
            digest = hashlib.sha256()
            number = 0
            while copied < size:
                values = {"file": file_id, "org": org, "number": number}
                row = await self.database.fetch_one(PART, values)
                if row is None:
                    raise UploadGone(f"{copied} of {size} bytes are there")
                file.write(row[0])
                digest.update(row[0])
                copied += len(row[0])
                number += 1
            file.seek(0)
        except BaseException:
            file.close()
            raise
        return file
