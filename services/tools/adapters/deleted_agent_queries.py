"""Which agents are gone: read from the view that the agent service publishes."""

from __future__ import annotations

from typing import Protocol

from libs.eventstore.connection_pool import Database


class DeletedAgents(Protocol):
    """Which agents are gone for good."""

    async def deleted_agents(self, org: str, agent_ids: list[str]) -> list[str]:
        """Those of these agents of an organisation that were deleted."""
        ...


class PostgresDeletedAgents:
    """Keeps the contract of `DeletedAgents`."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def deleted_agents(self, org: str, agent_ids: list[str]) -> list[str]:
        """Those of these agents of an organisation that were deleted."""
        rows = await self.database.fetch(
            "select d.id from unnest(%(ids)s::text[]) as wanted(id) cross join lateral"
            " (select id, org from agent.deleted_agent_view where id = wanted.id limit 1) d"
            " where d.org = %(org)s",
            {"ids": agent_ids, "org": org},
        )
        return [agent_id for (agent_id,) in rows]
