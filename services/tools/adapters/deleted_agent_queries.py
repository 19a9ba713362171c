"""Which agents are gone: read from the view that the agent service publishes."""

from __future__ import annotations

from libs.eventstore.connection_pool import Database


class DeletedAgents:
    """Which agents are gone for good."""

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

    async def last_event(self) -> int:
        """The last event of agents: where it is the same as before, none was deleted since."""
        row = await self.database.fetch_one("select position from agent.log_head_view")
        return int(row[0]) if row else 0
