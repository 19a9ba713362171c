"""Uploads of clients: the parts of a file, read from the view that the api publishes."""

from __future__ import annotations

import hashlib
import tempfile
from typing import IO

from libs.eventstore.connection_pool import Database

PART = """
select data from api.upload_part_view
where file_id = %(file)s and org = %(org)s and number = %(number)s"""


class UploadGone(Exception):
    """The bytes of a file are not all there, or not those that were uploaded; the words say which,
    and begin a sentence."""


class UploadedFiles:
    """The bytes of files that nobody has parsed yet; one part at a time is in memory."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def open(self, org: str, file_id: str, size: int, sha256: str) -> IO[bytes]:
        """A file of this machine without a name, with all bytes, at its beginning. Raises
        UploadGone, also where they have another sha256."""
        file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            copied = 0
            digest = hashlib.sha256()
            number = 0
            while copied < size:
                values = {"file": file_id, "org": org, "number": number}
                row = await self.database.fetch_one(PART, values)
                if row is None:
                    raise UploadGone(f"Only {copied} of the {size} uploaded bytes are there")
                file.write(row[0])
                digest.update(row[0])
                copied += len(row[0])
                number += 1
            if digest.hexdigest() != sha256:
                raise UploadGone(
                    f"The uploaded bytes have changed in the database: their sha256 is"
                    f" {digest.hexdigest()}, and was {sha256} when they came"
                )
            file.seek(0)
        except BaseException:
            file.close()
            raise
        return file
