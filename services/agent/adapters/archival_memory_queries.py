"""What an agent has in archival memory, from the views that the memory service publishes."""

from __future__ import annotations

from typing import Protocol

from libs.eventstore.connection_pool import Database
from services.agent.domain.agents.archival_memory_metadata import (
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


class ArchivalMemoryQueries(Protocol):
    """What prompts read of archives."""

    async def archival_memory(self, org: str, agent_id: str) -> ArchivalMemory:
        """How much an agent has in its archives, and with which tags."""
        ...


class PostgresArchivalMemoryQueries:
    """Keeps the contract of `ArchivalMemoryQueries`."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def archival_memory(self, org: str, agent_id: str) -> ArchivalMemory:
        """How much an agent has in its archives, and with which tags."""
        row = await self.database.fetch_one(
            NEWEST,
            {"org": org, "agent": agent_id, "most": COUNTED_MAX + 1, "tags": TAGS_SHOWN_MAX},
        )
        return ArchivalMemory(row[0], tuple(row[1])) if row else ArchivalMemory()
