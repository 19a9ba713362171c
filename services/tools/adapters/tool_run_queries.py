"""Calls that nobody makes any more, and calls that were stopped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from libs.eventstore.connection_pool import Database
from libs.work.deleted_agents import deleted_agents
from libs.work.work_lease import DueWork

SWEPT_MAX = 100
MAYBE_ORPHANED = (
    r"tools.leases where expires_at < now() and key like 'tool\_run-%'",
    "tools.tool_runs where status = 'running'",
)
ORPHANED_RUNS = """
(select l.key, coalesce(e.org, '') from tools.leases l left join lateral (
    select org from tools.events where aggregate_id = l.key limit 1) e on true
 where l.expires_at < now() and l.key like 'tool\\_run-%%'
 order by l.expires_at limit %(limit)s)
union all
(select r.id, r.org from tools.tool_runs r
 where r.status = 'running'
   and not exists (select from tools.leases l where l.key = r.id)
 limit %(limit)s)"""


# Those that have ended come first; the others are looked at again.
RUNS_OF_DELETED_AGENTS = """
select r.id, r.org, d.id, r.ended
from {deleted} cross join lateral (
    select id, org, status <> 'running' as ended from tools.tool_runs
    where agent_id = d.id and org = d.org order by 3 desc limit %(limit)s
) r
order by r.ended desc limit %(limit)s"""


@dataclass(frozen=True, slots=True)
class RunOfDeletedAgent:
    """A call of an agent that was deleted; `ended` says whether it may be forgotten."""

    id: str
    org: str
    agent_id: str
    ended: bool


class ToolRunQueries(Protocol):
    """The queries of the engine about calls."""

    async def orphaned_runs(self) -> list[DueWork]:
        """Calls that have not ended and have no live lease, and what died processes left of
        others."""

    async def stopped_runs(self, orgs: list[str], tool_run_ids: list[str]) -> list[str]:
        """Those of these calls of these organisations that were stopped."""

    async def run_result(self, org: str, tool_run_id: str) -> dict[str, Any] | None:
        """The `result` of a call, none while it runs; None for one that nobody makes any more."""

    async def runs_of_deleted_agents(self, agent_ids: list[str] | None) -> list[RunOfDeletedAgent]:
        """The next calls of those of these agents, or of all, that were deleted; those that have
        ended come first."""


class PostgresToolRunQueries:
    """Keeps the contract of `ToolRunQueries`."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def orphaned_runs(self) -> list[DueWork]:
        if not await self.database.any_row(*MAYBE_ORPHANED):
            return []
        rows = await self.database.fetch(ORPHANED_RUNS, {"limit": SWEPT_MAX})
        return [DueWork(*row) for row in rows]

    async def runs_of_deleted_agents(self, agent_ids: list[str] | None) -> list[RunOfDeletedAgent]:
        text = RUNS_OF_DELETED_AGENTS.format(deleted=deleted_agents(agent_ids))
        rows = await self.database.fetch(text, {"agents": agent_ids, "limit": SWEPT_MAX})
        return [RunOfDeletedAgent(*row) for row in rows]

    async def stopped_runs(self, orgs: list[str], tool_run_ids: list[str]) -> list[str]:
        rows = await self.database.fetch(
            "select r.id from unnest(%s::text[]) as wanted(id) cross join lateral"
            " (select id, org, status from tools.tool_runs where id = wanted.id limit 1) r"
            " where r.org = any(%s) and r.status = 'stopped'",
            [tool_run_ids, orgs],
        )
        return [tool_run_id for (tool_run_id,) in rows]

    async def run_result(self, org: str, tool_run_id: str) -> dict[str, Any] | None:
        row = await self.database.fetch_one(
            "select result, alive and status = 'running' from tools.tool_run_view"
            " where id = %s and org = %s",
            [tool_run_id, org],
        )
        if row is None or (row[0] is None and not row[1]):
            return None
        return {"result": row[0]}
