"""Which aggregates of the groups service are an agent's, at a commit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from libs.eventstore.connection_pool import Database
from libs.eventstore.moments import WantedMoment

MANAGED = """
select distinct e.aggregate_id from groups.events e
where e.topic in ('group.created', 'group.updated')
  and coalesce(e.payload->'config'->>'manager_agent_id', e.payload->'changes'->>'manager_agent_id')
    = %(agent)s
  and coalesce(e.payload->'config'->>'manager_agent_id', e.payload->'changes'->>'manager_agent_id')
    <> ''
  and e.org = %(org)s and e.commit_order <= %(cut)s"""


class GroupMomentAggregates:
    """The groups that an agent manages, or did."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def stages(
        self, wanted: WantedMoment, ids: Sequence[str], as_of: int
    ) -> AsyncIterator[Sequence[str]]:
        """All the groups that it ever managed."""
        yield [name for (name,) in await self.database.fetch(MANAGED, wanted.values)]
