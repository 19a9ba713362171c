"""Counts of an organisation's tools and of its lists of permissions."""

from __future__ import annotations

from typing import Protocol

from libs.eventstore.connection_pool import Database
from services.tools.domain.organisation_tool_quota import ToolsOfOrg


class ToolCounts(Protocol):
    """The counts that limits are decided by."""

    async def tools_of(self, org: str) -> ToolsOfOrg:
        """The tools of an organisation."""


class PostgresToolCounts:
    """Keeps the contract of `ToolCounts`. Sizes are those of the stored values, which are not read
    for that."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def tools_of(self, org: str) -> ToolsOfOrg:
        row = await self.database.fetch_one(
            "select count(*), coalesce(sum(pg_column_size(fields)"
            " + coalesce(pg_column_size(json_schema), 0)"
            " + coalesce(pg_column_size(args_json_schema), 0)"
            " + coalesce(pg_column_size(metadata_), 0)), 0)"
            ' from tools.tools where org collate "C" = %s',
            [org],
        )
        assert row is not None
        return ToolsOfOrg(int(row[0]), int(row[1]))


class PostgresToolPermissionCounts:
    """Keeps the contract of `ToolPermissionCounts`."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def lists_of(self, org: str) -> int:
        row = await self.database.fetch_one(
            'select count(*) from tools.tool_permissions where org collate "C" = %s', [org]
        )
        return int(row[0]) if row else 0
