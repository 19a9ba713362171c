"""Queries about agents' capabilities, and the free agents, from views of the agent service."""

from __future__ import annotations

from libs.eventstore.connection_pool import DatabaseQueries

NAMES = """
select coalesce(json_agg(json_build_object('name', page.name, 'agents', page.agents)
                         order by page.name collate "C"), '[]')::text
from (select c.name, count(*) as agents from agent.agent_capability_view c
      where c.org = %(org)s and (%(after)s::text is null or c.name collate "C" > %(after)s)
      group by c.name order by c.name collate "C" limit %(limit)s) page"""

# In the order in which messages are routed to them, but for equal ones.
AGENTS = """
with busy as (
    select r.agent_id, count(*) as runs from agent.run_view r
    where r.org collate "C" = %(org)s and r.status in ('created', 'running') group by r.agent_id)
select coalesce(json_agg(page.document order by page.number), '[]')::text
from (select row_number() over ranking as number, json_build_object(
          'agent_id', a.id, 'name', a.name, 'description', c.description, 'priority', c.priority,
          'tags', a.tags, 'active_runs', coalesce(busy.runs, 0),
          'available', busy.runs is null) as document
      from agent.agent_capability_view c
      cross join lateral (select id, org, name, tags, hidden from agent.agent_view
                          where id = c.agent_id limit 1) a
      left join busy on busy.agent_id = a.id
      where c.org = %(org)s and c.name = %(name)s and a.org = %(org)s and not a.hidden
      window ranking as (order by coalesce(busy.runs, 0), c.priority desc, a.id)
      order by number limit %(limit)s) page"""


class CapabilityQueries(DatabaseQueries):
    """Reads capabilities."""

    async def names(self, org: str, after: str | None, limit: int | None) -> bytes:
        """The names of capabilities with the number of agents that declare each, as JSON."""
        values = {"org": org, "after": after, "limit": limit}
        return await self.database.fetch_text(NAMES, values) or b"[]"

    async def agents(self, org: str, name: str, limit: int | None) -> bytes:
        """The agents that declare a capability, the most available first, as JSON."""
        values = {"org": org, "name": name, "limit": limit}
        return await self.database.fetch_text(AGENTS, values) or b"[]"
