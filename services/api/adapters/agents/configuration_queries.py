"""Files of agents in SQL: those whose agents were deleted."""

from __future__ import annotations

from libs.eventstore.connection_pool import DatabaseQueries
from libs.work.deleted_agents import deleted_agents

SWEPT_MAX = 100
ABANDONED = """
select c.agent_id, c.org
from {deleted} join api.configurations c on c.agent_id = d.id and c.org = d.org
order by c.id limit %(limit)s"""


class ConfigurationQueries(DatabaseQueries):
    """The queries of policies about the files of agents."""

    async def abandoned_configurations(self, agent_ids: list[str] | None) -> list[tuple[str, str]]:
        """Those of these agents, or of all, with their organisations, that were deleted and whose
        files are still known; `SWEPT_MAX` at most."""
        if agent_ids is None and not await self.database.any_row("api.configurations"):
            return []
        text = ABANDONED.format(deleted=deleted_agents(agent_ids))
        rows = await self.database.fetch(text, {"agents": agent_ids, "limit": SWEPT_MAX})
        return [(agent_id, org) for agent_id, org in rows]
