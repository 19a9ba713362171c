"""What is known of folders and their files, from the rows of the in-memory store."""

from __future__ import annotations

from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.unit_of_work import UnitOfWork


class InMemoryFolderQueries:
    """Keeps the contract of `FolderQueries`."""

    def __init__(self, database: InMemoryDatabase) -> None:
        self.schema = database.schema("memory")

    async def folders_of(self, org: str) -> int:
        return sum(1 for row in self.schema.rows("folders") if row["org"] == org)

    async def files_of(self, org: str, folder_id: str) -> int:
        return sum(
            1
            for row in self.schema.rows("files")
            if (row["org"], row["folder_id"]) == (org, folder_id)
        )

    async def same_name(self, org: str, folder_id: str, original_name: str) -> int:
        return sum(
            1
            for row in self.schema.rows("files")
            if (row["org"], row["folder_id"]) == (org, folder_id)
            and row["original_name"] == original_name
        )

    async def readable_files(self, org: str, folder_id: str, limit: int) -> list[str]:
        found = [
            (str(row["created_at"]), str(row["id"]))
            for row in self.schema.rows("files")
            if (row["org"], row["folder_id"]) == (org, folder_id) and row["lines"] is not None
        ]
        return [file_id for _, file_id in sorted(found)][:limit]

    async def unfinished_files(self, org: str, folder_id: str) -> int:
        return sum(
            1
            for row in self.schema.rows("files")
            if (row["org"], row["folder_id"]) == (org, folder_id)
            and row["status"] not in ("completed", "error")
        )


def not_processed(file_id: str, work: UnitOfWork) -> None:
    """Nobody processes files here."""
