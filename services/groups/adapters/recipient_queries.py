"""Which agents a message can go to, the best first: those that are free before those that are busy,
then the shortest queue, then the highest priority."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import TypeAdapter

from libs.contracts.agent.runs import CallingRun
from libs.eventstore.connection_pool import Database
from libs.work.deleted_agents import deleted_agents
from libs.work.work_lease import DueWork

SWEPT_MAX = 100
MAYBE_ROUTED = "groups.routed_messages where status = 'active'"
CALLERS: TypeAdapter[list[CallingRun]] = TypeAdapter(list[CallingRun])

# Those whose runs are active are counted once, from the index of active runs.
RANKED = """
with busy as (
    select r.agent_id, count(*) as runs from agent.run_view r
    where r.org collate "C" = %(org)s and r.status in ('created', 'running') group by r.agent_id)
select a.id from {source} left join busy on busy.agent_id = a.id
where a.org = %(org)s and {condition}
order by coalesce(busy.runs, 0), {priority}md5(a.id || %(seed)s), a.id limit %(limit)s"""
OF_CAPABILITY = RANKED.format(
    source=(
        "agent.agent_capability_view c cross join lateral (select id, org, hidden, tags"
        " from agent.agent_view where id = c.agent_id limit 1) a"
    ),
    condition="c.org = %(org)s and c.name = %(capability)s and not a.hidden"
    " and a.tags @> %(tags)s::text[]",
    priority="c.priority desc, ",
)
OF_TAGS = RANKED.format(
    source=(  # `offset 0` has the agents found by their tags before they are joined
        '(select id, org from agent.agent_view where org collate "C" = %(org)s and not hidden'
        " and tags @> %(tags)s::text[] offset 0) a"
    ),
    condition="true",
    priority="",
)
OF_IDS = RANKED.format(
    source="agent.agent_view a", condition="a.id = any(%(agent_ids)s::text[])", priority=""
)
OF_TOPIC = RANKED.format(
    source=(
        "groups.subscribers s cross join lateral (select id, org from agent.agent_view"
        " where id = s.agent_id limit 1) a"
    ),
    condition="s.org = %(org)s and s.topic = %(topic)s",
    priority="",
)

DUE = """
select m.id, m.org from groups.routed_messages m
where m.status = 'active'
  and not exists (select from groups.leases l where l.key = m.id and l.expires_at > now())
  and (m.deadline_at <= now()
    or (m.bids_until <= now() and exists (select from groups.routed_deliveries d
        where d.routed_message_id = m.id and d.status = 'pending' and d.purpose = 'bid'))
    or not exists (select from groups.routed_deliveries d
                   where d.routed_message_id = m.id and d.status = 'pending')
    or exists (select from groups.routed_deliveries d
               where d.routed_message_id = m.id and d.status = 'pending'
                 and not exists (select from agent.run_view r where r.id = d.run_id
                                   and r.status in ('created', 'running'))))
order by row_number() over (partition by m.org order by m.created_at, m.id), m.created_at
limit %(limit)s"""


LOST_SUBSCRIPTIONS = """
select s.topic_id, s.topic, s.agent_id, s.org
from {deleted} join groups.subscribers s on s.agent_id = d.id and s.org = d.org
order by s.id limit %(limit)s"""


@dataclass(frozen=True, slots=True)
class LostSubscription:
    """A subscription of an agent that was deleted."""

    topic_id: str
    topic: str
    agent_id: str
    org: str


class RecipientQueries(Protocol):
    """What routing reads of agents and of what it has routed."""

    async def with_capability(
        self, org: str, name: str, tags: list[str], seed: str, limit: int
    ) -> list[str]:
        """The agents that declare a capability and have all of some tags, the best first; equal
        ones by `seed`."""

    async def with_tags(self, org: str, tags: list[str], seed: str, limit: int) -> list[str]:
        """The agents that have all of some tags, the best first."""

    async def present(self, org: str, agent_ids: list[str], seed: str, limit: int) -> list[str]:
        """Those of these agents that are there, the best first."""

    async def subscribers(self, org: str, topic: str, seed: str, limit: int) -> list[str]:
        """The agents that subscribe to a topic and are there."""

    async def callers_of(self, org: str, run_id: str) -> list[CallingRun] | None:
        """The runs that led to a run, and the run itself; None where there is no such run."""

    async def due_messages(self) -> list[DueWork]:
        """The messages that can go on and that nobody works on."""

    async def lost_subscriptions(self, agent_ids: list[str] | None) -> list[LostSubscription]:
        """Subscriptions of those of these agents, or of all, that were deleted; `SWEPT_MAX` at
        most."""


class PostgresRecipientQueries:
    """Keeps the contract of `RecipientQueries`."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def find_ranked(self, query: str, **values: Any) -> list[str]:
        """The ids that a query finds."""
        return [agent_id for (agent_id,) in await self.database.fetch(query, values)]

    async def with_capability(
        self, org: str, name: str, tags: list[str], seed: str, limit: int
    ) -> list[str]:
        values = {"org": org, "capability": name, "tags": tags, "seed": seed, "limit": limit}
        return await self.find_ranked(OF_CAPABILITY, **values)

    async def with_tags(self, org: str, tags: list[str], seed: str, limit: int) -> list[str]:
        return await self.find_ranked(OF_TAGS, org=org, tags=tags, seed=seed, limit=limit)

    async def present(self, org: str, agent_ids: list[str], seed: str, limit: int) -> list[str]:
        return await self.find_ranked(OF_IDS, org=org, agent_ids=agent_ids, seed=seed, limit=limit)

    async def subscribers(self, org: str, topic: str, seed: str, limit: int) -> list[str]:
        return await self.find_ranked(OF_TOPIC, org=org, topic=topic, seed=seed, limit=limit)

    async def callers_of(self, org: str, run_id: str) -> list[CallingRun] | None:
        row = await self.database.fetch_one(
            "select r.agent_id, r.conversation_id,"
            " (select c.callers from agent.called_run_view c where c.run_id = r.id limit 1)"
            " from agent.run_view r where r.id = %s and r.org = %s",
            [run_id, org],
        )
        if row is None:
            return None
        agent_id, conversation_id, callers = row
        own = CallingRun(
            agent_id=agent_id, conversation_id=conversation_id, run_id=run_id, waits=False
        )
        return [*CALLERS.validate_python(callers or []), own]

    async def due_messages(self) -> list[DueWork]:
        if not await self.database.any_row(MAYBE_ROUTED):
            return []
        return [DueWork(*row) for row in await self.database.fetch(DUE, {"limit": SWEPT_MAX})]

    async def lost_subscriptions(self, agent_ids: list[str] | None) -> list[LostSubscription]:
        if agent_ids is None and not await self.database.any_row("groups.subscribers"):
            return []
        text = LOST_SUBSCRIPTIONS.format(deleted=deleted_agents(agent_ids))
        rows = await self.database.fetch(text, {"agents": agent_ids, "limit": SWEPT_MAX})
        return [LostSubscription(*row) for row in rows]
