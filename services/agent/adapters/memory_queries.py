"""The memory in an agent's system prompt: blocks, folders, and archives."""

from __future__ import annotations

from libs.eventstore.connection_pool import DatabaseQueries
from services.agent.domain.prompts.system_prompt import (
    COUNTED_MAX,
    TAGS_SHOWN_MAX,
    ArchivalMemory,
)

# The newest passages, so many of each archive: how many there are beyond them is not looked at.
NEWEST = """
with newest as materialized (
    select p.tags from memory.archive_agent_view a
    cross join lateral (
        select tags from memory.passage_view
        where collection_id = a.archive_id and org = a.org
        order by created_at desc, id collate "C" desc limit %(most)s) p
    where a.agent_id = %(agent)s and a.org = %(org)s limit %(most)s)
select (select count(*) from newest),
       array(select distinct tag from newest, unnest(newest.tags) tag
             order by tag limit %(tags)s)"""

ARCHIVE_OWNER = """
select g.manager_agent_id from groups.group_member_view m
cross join lateral (select org, manager_type, manager_agent_id, created_at
    from groups.group_view where id = m.group_id limit 1) g
where m.agent_id = %(agent)s and m.org = %(org)s and g.org = %(org)s
  and g.manager_type = 'voice_sleeptime' and g.manager_agent_id is not null
order by g.created_at limit 1"""


class ArchivalMemoryQueries(DatabaseQueries):
    """The queries of prompts about archives."""

    async def archival_memory(self, org: str, agent_id: str) -> ArchivalMemory:
        """The size of an agent's archives, and their tags."""
        row = await self.database.fetch_one(
            NEWEST,
            {"org": org, "agent": agent_id, "most": COUNTED_MAX + 1, "tags": TAGS_SHOWN_MAX},
        )
        return ArchivalMemory(row[0], tuple(row[1])) if row else ArchivalMemory()

    async def archive_owner(self, org: str, agent_id: str) -> str:
        """The agent in whose archives an agent stores: for a sleeptime agent for voice the one that
        it reviews, as V1 has it."""
        row = await self.database.fetch_one(ARCHIVE_OWNER, {"org": org, "agent": agent_id})
        return str(row[0]) if row else agent_id
