"""Files of agents in SQL: those whose agents were deleted."""

from __future__ import annotations

from libs.eventstore.connection_pool import Database

SWEPT_MAX = 100
ABANDONED = """
select c.agent_id, c.org from api.configurations c cross join lateral (
    select org from agent.deleted_agent_view where id = c.agent_id limit 1) d
where d.org = c.org order by c.id limit %s"""


class ConfigurationQueries:
    """What policies read of the files of agents."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def abandoned_configurations(self) -> list[tuple[str, str]]:
        """The agents, with their organisations, that were deleted and whose files are still
        known; `SWEPT_MAX` at most."""
        if not await self.database.any_row("api.configurations"):
            return []
        rows = await self.database.fetch(ABANDONED, [SWEPT_MAX])
        return [(agent_id, org) for agent_id, org in rows]
