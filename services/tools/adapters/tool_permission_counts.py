"""The lists of tools that an organisation has, counted from the tools service's own table."""

from __future__ import annotations

from libs.eventstore.connection_pool import Database


class PostgresToolPermissionCounts:
    """Keeps the contract of `ToolPermissionCounts`."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def lists_of(self, org: str) -> int:
        """How many lists an organisation has."""
        row = await self.database.fetch_one(
            'select count(*) from tools.tool_permissions where org collate "C" = %s', [org]
        )
        return int(row[0]) if row else 0
