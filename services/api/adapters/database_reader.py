"""The part that all readers of the database have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from libs.eventstore.connection_pool import Database


class DatabaseReader:
    """Reads rows of one kind of thing."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def column(self, query: str, values: Mapping[str, Any] | Sequence[Any]) -> list[Any]:
        """The first column of all rows of a query."""
        return [row[0] for row in await self.database.fetch(query, values)]

    async def value(self, query: str, values: Mapping[str, Any] | Sequence[Any]) -> Any | None:
        """The first column of the first row of a query; None without a row."""
        row = await self.database.fetch_one(query, values)
        return row[0] if row else None

    async def number(self, query: str, values: Mapping[str, Any] | Sequence[Any]) -> int:
        """The number that a query gives; 0 without a row."""
        return int(await self.value(query, values) or 0)
