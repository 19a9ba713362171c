"""MCP servers whose tools are to be discovered, and those that are gone."""

from __future__ import annotations

from typing import Protocol

from libs.eventstore.connection_pool import Database
from libs.work.work_lease import DueWork

# The first of each organisation come before the second of any.
DUE_DISCOVERIES = """
select id, org from (
    select s.id, s.org, s.due_at,
           row_number() over (partition by s.org order by s.due_at, s.id) as place
    from tools.mcp_servers s
    where s.due_at <= now()
      and not exists (select from tools.leases l where l.key = s.id and l.expires_at > now())
) due
where place <= %(of_org)s order by place, due_at limit %(limit)s"""
VERSIONS = """
select s.id, s.version from unnest(%s::text[]) as wanted(id) cross join lateral
    (select id, org, version from tools.mcp_servers where id = wanted.id limit 1) s
where s.org = any(%s)"""
DECLARED = 'select s.id from tools.mcp_servers s where s.org collate "C" = %(org)s and s.declared'


class McpServerQueries(Protocol):
    """The queries of the engine about MCP servers."""

    async def due_discoveries(self, of_org: int, limit: int) -> list[DueWork]:
        """Servers whose tools are to be discovered now, and nobody does, the longest first."""

    async def versions(self, orgs: list[str], server_ids: list[str]) -> dict[str, int]:
        """The versions of those of these servers of these organisations that are there."""

    async def declared_servers(self, org: str) -> list[str]:
        """The servers that the configuration of the service declares."""


class PostgresMcpServerQueries:
    """Keeps the contract of `McpServerQueries`."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def due_discoveries(self, of_org: int, limit: int) -> list[DueWork]:
        if not await self.database.any_row("tools.mcp_servers where due_at <= now()"):
            return []
        rows = await self.database.fetch(DUE_DISCOVERIES, {"of_org": of_org, "limit": limit})
        return [DueWork(*row) for row in rows]

    async def versions(self, orgs: list[str], server_ids: list[str]) -> dict[str, int]:
        return dict(await self.database.fetch(VERSIONS, [server_ids, orgs]))

    async def declared_servers(self, org: str) -> list[str]:
        return [server_id for (server_id,) in await self.database.fetch(DECLARED, {"org": org})]
