"""What the runs of groups read: which conversations have something to do, and who takes part."""

from __future__ import annotations

from typing import Protocol

from libs.eventstore.connection_pool import Database
from libs.work.work_lease import DueWork
from services.groups.domain.managers.decisions import Participant

SWEPT_MAX = 200
MAYBE_DUE = (
    "groups.group_conversations where is_pending",
    "groups.group_conversations c where c.is_open"
    " and not exists (select from groups.groups g where g.id = c.group_id)",
)
# Those of each organisation by turns; and the conversations of groups that were deleted.
DUE_CONVERSATIONS = """
select c.id, c.org from groups.group_conversations c
where (c.is_pending or (c.is_open
       and not exists (select from groups.groups g where g.id = c.group_id)))
  and not exists (
    select from groups.leases l where l.key = c.id and l.expires_at > now())
order by row_number() over (partition by c.org order by c.id), c.id
limit %(limit)s"""
PARTICIPANTS = """
select v.id, v.name, coalesce(v.fields->>'description', ''), v.tags || array(
    select c.name from agent.agent_capability_view c
    where c.agent_id = v.id and c.org = v.org order by c.name)
from agent.agent_view v where v.id = any(%(ids)s) and v.org = %(org)s"""


class GroupRunQueries(Protocol):
    """What is read of groups and their agents."""

    async def due_conversations(self) -> list[DueWork]:
        """The conversations with something to do that nobody holds a lease for, and those of
        groups that were deleted."""

    async def participants(self, org: str, agent_ids: list[str]) -> list[Participant]:
        """Those of these agents that exist, in this order."""


class PostgresGroupRunQueries:
    """Keeps the contract of `GroupRunQueries`."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def due_conversations(self) -> list[DueWork]:
        if not await self.database.any_row(*MAYBE_DUE):
            return []
        rows = await self.database.fetch(DUE_CONVERSATIONS, {"limit": SWEPT_MAX})
        return [DueWork(*row) for row in rows]

    async def participants(self, org: str, agent_ids: list[str]) -> list[Participant]:
        rows = await self.database.fetch(PARTICIPANTS, {"ids": agent_ids, "org": org})
        known = {
            agent_id: Participant(agent_id, name, description, tuple(tags))
            for agent_id, name, description, tags in rows
        }
        return [known[agent_id] for agent_id in agent_ids if agent_id in known]
