"""Which aggregates of the api are an agent's, at a commit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from libs.eventstore.connection_pool import DatabaseQueries
from libs.eventstore.moments import WantedMoment

ATTACHMENTS = """
select distinct e.aggregate_id from api.events e
where e.topic = 'attachment.made' and e.about = any(%(targets)s::text[]) and e.org = %(org)s
  and e.commit_order <= %(cut)s"""
OWNERS = "select distinct owner_id from api_as_of.attachments_rows where as_of = %(as_of)s"


class ApiMomentAggregates(DatabaseQueries):
    """The identities of an agent and of its blocks, which others know."""

    async def stages(
        self, wanted: WantedMoment, ids: Sequence[str], as_of: int
    ) -> AsyncIterator[Sequence[str]]:
        """First what says that something is attached, then the identities that are."""
        values = {**wanted.values, "targets": [wanted.agent_id, *ids], "as_of": as_of}
        for query in (ATTACHMENTS, OWNERS):
            yield await self.column(query, values)
