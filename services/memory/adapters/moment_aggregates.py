"""Which aggregates of the memory service are an agent's, at a commit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from libs.contracts.memory.agent_folders import agent_folders_id
from libs.eventstore.connection_pool import Database
from libs.eventstore.moments import WantedMoment

# The chunks of files are not shown with an agent.
SKIPPED_TOPICS = ("file.chunks_embedded", "file.chunks_reembedded")
ARCHIVES = """
select distinct e.aggregate_id from memory.events e
where e.topic in ('archive.created', 'archive.attached')
  and e.payload->>'agent_id' = %(agent)s and e.payload->>'agent_id' <> ''
  and e.org = %(org)s and e.commit_order <= %(cut)s"""
# Of the archives that the agent has at that moment, which the rows of the moment say.
PASSAGES = """
select e.aggregate_id
from memory_as_of.archive_agents_rows a
cross join lateral (
    select aggregate_id, org, commit_order from memory.events
    where topic in ('passage.created', 'passage.embedded', 'passage.deleted')
      and topic = 'passage.created'
      and payload->>'archive_id' = a.archive_id and payload->>'archive_id' <> '' offset 0) e
where a.as_of = %(as_of)s and a.agent_id = %(agent)s and e.org = %(org)s
  and e.commit_order <= %(cut)s"""
FOLDERS = """
select folder_id from memory_as_of.agent_folders_rows
where as_of = %(as_of)s and agent_id = %(agent)s"""
FILES = """
select e.aggregate_id
from memory_as_of.agent_folders_rows a
cross join lateral (
    select aggregate_id, org, commit_order from memory.events
    where topic = 'file.added' and payload->>'folder_id' = a.folder_id
      and payload->>'folder_id' <> '' offset 0) e
where a.as_of = %(as_of)s and a.agent_id = %(agent)s and e.org = %(org)s
  and e.commit_order <= %(cut)s"""


class MemoryMomentAggregates:
    """The blocks of an agent, which others know, its archives with their passages, its folders with
    their files."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def stages(
        self, wanted: WantedMoment, ids: Sequence[str], as_of: int
    ) -> AsyncIterator[Sequence[str]]:
        """First what is attached to the agent, then what is in it."""
        yield [*ids, agent_folders_id(wanted.agent_id), *await self.ids_of(ARCHIVES, wanted, as_of)]
        yield [*await self.ids_of(FOLDERS, wanted, as_of), *await self.ids_of(FILES, wanted, as_of)]
        yield await self.ids_of(PASSAGES, wanted, as_of)

    async def ids_of(self, query: str, wanted: WantedMoment, as_of: int) -> list[str]:
        """The ids that a query finds."""
        rows = await self.database.fetch(query, {**wanted.values, "as_of": as_of})
        return [name for (name,) in rows]
