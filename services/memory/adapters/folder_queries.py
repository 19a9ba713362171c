"""Queries about folders and files besides the one that a command is about."""

from __future__ import annotations

from typing import Protocol

from libs.eventstore.connection_pool import Database


class FolderQueries(Protocol):
    """The queries that limits and names are decided by."""

    async def folders_of(self, org: str) -> int:
        """The number of folders of an organisation."""

    async def files_of(self, org: str, folder_id: str) -> int:
        """The number of files of a folder."""

    async def same_name(self, org: str, folder_id: str, original_name: str) -> int:
        """The number of files of a folder that were uploaded by one name."""

    async def readable_files(self, org: str, folder_id: str, limit: int) -> list[str]:
        """The ids of files of a folder that have a text, the oldest first."""

    async def unfinished_files(self, org: str, folder_id: str) -> int:
        """The number of files of a folder that are being processed, or wait for that."""


class PostgresFolderQueries:
    """Keeps the contract of `FolderQueries`."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def folders_of(self, org: str) -> int:
        return await fetch_count(
            self.database, 'select count(*) from memory.folders where org collate "C" = %s', [org]
        )

    async def files_of(self, org: str, folder_id: str) -> int:
        return await fetch_count(
            self.database,
            "select count(*) from memory.files where folder_id = %s and org = %s",
            [folder_id, org],
        )

    async def same_name(self, org: str, folder_id: str, original_name: str) -> int:
        return await fetch_count(
            self.database,
            "select count(*) from memory.files"
            ' where folder_id = %s and original_name collate "C" = %s and org = %s',
            [folder_id, original_name, org],
        )

    async def readable_files(self, org: str, folder_id: str, limit: int) -> list[str]:
        rows = await self.database.fetch(
            "select id from memory.files where folder_id = %s and org = %s and lines is not null"
            ' order by created_at, id collate "C" limit %s',
            [folder_id, org, limit],
        )
        return [file_id for (file_id,) in rows]

    async def unfinished_files(self, org: str, folder_id: str) -> int:
        return await fetch_count(
            self.database,
            "select count(*) filter (where status not in ('completed', 'error'))"
            " from memory.files where folder_id = %s and org = %s",
            [folder_id, org],
        )


async def fetch_count(database: Database, query: str, parameters: list[str]) -> int:
    """The number in the only row that a query returns."""
    row = await database.fetch_one(query, parameters)
    assert row is not None, "a count is one row"
    return int(row[0])
