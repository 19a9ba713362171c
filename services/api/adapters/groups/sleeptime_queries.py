"""Which agents review which, from the views of the groups service and the agent service."""

from __future__ import annotations

from libs.contracts.groups.sleeptime import SLEEPTIME_TYPES
from libs.eventstore.connection_pool import DatabaseQueries

GROUPS_OF = (
    "from groups.group_view g where g.manager_agent_id = %(agent)s and g.org = %(org)s"
    " and g.manager_type = any(%(types)s)"
)
MANAGER_OF = """
(select g.manager_agent_id from groups.group_view g
 where g.manager_agent_id = %(agent)s and g.org = %(org)s and g.manager_type = any(%(types)s)
 limit 1)
union all
(select g.manager_agent_id from groups.group_member_view m
 cross join lateral (select org, manager_agent_id, manager_type, agent_ids
     from groups.group_view where id = m.group_id limit 1) g
 where m.agent_id = %(agent)s and m.org = %(org)s and g.org = %(org)s
   and g.manager_type = any(%(types)s) and cardinality(g.agent_ids) = 1
 limit 1)"""


class SleeptimeQueries(DatabaseQueries):
    """The queries of routes about sleeptime groups."""

    async def sleeptime_groups(self, org: str, agent_id: str) -> list[str]:
        """The sleeptime groups that an agent manages, the oldest first."""
        return await self.column(
            f"select g.id {GROUPS_OF} order by g.created_at, g.id", values(org, agent_id)
        )

    async def sleeptime_agents_of(self, org: str, agent_id: str) -> list[str]:
        """The members of the sleeptime groups that an agent manages."""
        rows = await self.database.fetch(
            f"select distinct unnest(g.agent_ids) {GROUPS_OF}", values(org, agent_id)
        )
        return sorted(member for (member,) in rows)

    async def manager_of_sleeptime(self, org: str, agent_id: str) -> str | None:
        """The manager of the sleeptime group that an agent manages, or is the only member of."""
        return await self.value(MANAGER_OF, values(org, agent_id))

    async def are_accepted(self, org: str, run_ids: list[str]) -> bool:
        """Whether all these runs are there for clients to read."""
        rows = await self.database.fetch(
            "select id from agent.run_view where id = any(%s) and org = %s", [run_ids, org]
        )
        return len(rows) == len(set(run_ids))


def values(org: str, agent_id: str) -> dict[str, object]:
    """The parameters of the queries."""
    return {"org": org, "agent": agent_id, "types": [*SLEEPTIME_TYPES]}
