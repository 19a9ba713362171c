"""Which tools may be called, as the tables of the twin say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from libs.eventstore.in_memory_database import InMemoryDatabase

COLUMNS = ("org", "kind", "scope_id", "tools", "capabilities")


class ToolPermissionRows:
    """Keeps the contracts of `ViewReader` and `ToolPermissionCounts`."""

    def __init__(self, database: InMemoryDatabase) -> None:
        self.schema = database.schema("tools")

    async def fingerprint(self) -> str:
        known = [(row["id"], row["revision"]) for row in self.schema.rows("tool_permissions")]
        return str(sorted(known))

    async def rows(self) -> Sequence[tuple[Any, ...]]:
        found = self.schema.rows("tool_permissions")
        return [tuple(row[column] for column in COLUMNS) for row in found]

    async def lists_of(self, org: str) -> int:
        return sum(row["org"] == org for row in self.schema.rows("tool_permissions"))
