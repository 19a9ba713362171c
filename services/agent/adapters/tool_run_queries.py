"""Calls of tools, from the view that the tools service publishes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from libs.eventstore.connection_pool import Database


@dataclass(frozen=True, slots=True)
class ToolRunProgress:
    """How far a call is: `result` once there is one; `alive` while a process makes it."""

    result: dict[str, Any] | None
    alive: bool


class ToolRunQueries(Protocol):
    """What whoever waits for a call reads of it."""

    async def tool_run(self, org: str, tool_run_id: str) -> ToolRunProgress | None:
        """A call, if it was begun."""
        ...


class PostgresToolRunQueries:
    """Keeps the contract of `ToolRunQueries`."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def tool_run(self, org: str, tool_run_id: str) -> ToolRunProgress | None:
        """A call, if it was begun."""
        row = await self.database.fetch_one(
            "select result, alive and status = 'running' from tools.tool_run_view"
            " where id = %s and org = %s",
            [tool_run_id, org],
        )
        return ToolRunProgress(*row) if row else None
