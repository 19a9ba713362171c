"""What sleeptime groups are made of and decided by: agents, their groups, and what they said."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from libs.contracts.bus_messages import JsonObject
from libs.contracts.groups.sleeptime import SLEEPTIME_TYPES, Review, sleeptime_group
from libs.eventstore.connection_pool import Database
from libs.work.work_lease import DueWork
from services.groups.domain.review_messages import REVIEWED_MESSAGES_MAX
from services.groups.domain.sleeptime import SaidMessage

SWEPT_MAX = 100
# More messages than a message buffer may hold are not counted one by one.
UNREVIEWED_MESSAGES_MAX = 1_000

REVIEWED_AGENT = """
select v.name, v.fields->>'project_id', v.block_ids, (v.fields->>'enable_sleeptime')::boolean,
       a.v1->>'agent_type', a.v1->'llm_config', v.embedding_config
from agent.agent_view v
cross join lateral (select ('{' || v.body || '}')::json as v1) a
where v.id = %s and v.org = %s"""

GROUPS_OF = """
select id from groups.groups where manager_agent_id = %(agent)s and org = %(org)s
and manager_type = any(%(types)s) order by created_at, id"""

SLEEPTIME_AGENTS = """
select v.id from unnest(%(ids)s::text[]) as wanted(id)
cross join lateral (select id, org, body from agent.agent_view
    where id = wanted.id limit 1) v
where v.org = %(org)s
and ('{' || v.body || '}')::json->>'agent_type' = any(%(types)s)"""
OWN_SLEEPTIME_AGENTS = f"""{SLEEPTIME_AGENTS}
and not exists (select from groups.group_members m join groups.groups g on g.id = m.group_id
    where m.agent_id = v.id and m.org = %(org)s and g.manager_type = any(%(group_types)s)
      and g.manager_agent_id <> %(manager)s)"""
SLEEPTIME_AGENT_TYPES = ("sleeptime_agent", "voice_sleeptime_agent")

SAID = (
    'm.agent_id collate "C" = %(agent)s and m.org = %(org)s and'
    " (m.role in ('user', 'assistant', 'tool') or (m.role = 'system' and m.sent))"
)
# A message that was deleted meanwhile, with its conversation, is known by the time of its review.
AFTER = (
    "m.recorded_at > coalesce((select recorded_at from agent.message_view"
    " where id = %(after)s and org = %(org)s), %(after_at)s::timestamptz, '-infinity')"
)
# What a review has reached already is not the end of another one: runs may be counted in any order.
LAST_ANSWER = f"""
select last.id from (
    select m.id, m.recorded_at from agent.message_view m
    where m.run_id = %(run)s and m.org = %(org)s and not m.sent
    order by m.position desc limit 1) last
where {AFTER.replace("m.recorded_at", "last.recorded_at")}"""
UNREVIEWED = f"""
select id, role = 'user' from (
    select m.id, m.role, m.recorded_at, m.position from agent.message_view m
    where {SAID} and {AFTER} order by m.recorded_at desc, m.position desc limit %(limit)s) newest
order by recorded_at, position"""
REVIEWED = f"""
select v1_messages from (
    select m.v1_messages, m.recorded_at, m.position from agent.message_view m
    where {SAID} and {AFTER}
      and m.recorded_at <= coalesce((select recorded_at from agent.message_view
          where id = %(last)s and org = %(org)s), %(requested_at)s::timestamptz)
    order by m.recorded_at desc, m.position desc limit %(limit)s) newest
order by recorded_at, position"""

DUE_REVIEWS = """
select r.group_id, r.org from groups.reviews r
where not exists (select from groups.leases l
    where l.key = r.group_id and l.expires_at > now())
group by r.group_id, r.org order by min(r.requested_at) limit %s"""

# The manager is gone, or all members are. From the events of agents, so that an empty read model
# deletes nothing.
LOST_GROUPS = """
select g.id, coalesce(g.manager_agent_id, ''), g.org from groups.groups g
where g.manager_type = any(%(types)s) and (
    exists (select from agent.deleted_agent_view d
        where d.id = g.manager_agent_id and d.org = g.org)
    or (cardinality(g.agent_ids) > 0 and not exists (
        select from unnest(g.agent_ids) as member(id) where not exists (
            select from agent.deleted_agent_view d where d.id = member.id and d.org = g.org))))
order by g.id limit %(limit)s"""

WITHOUT_GROUP = """
select v.id, v.org from agent.agent_view v
where v.fields->>'enable_sleeptime' = 'true' and not exists (
    select from groups.groups g where g.manager_agent_id = v.id and g.manager_type = any(%s))
order by v.id"""


@dataclass(frozen=True, slots=True)
class ReviewedAgent:
    """An agent as its sleeptime agent needs it."""

    name: str
    project_id: str | None
    block_ids: list[str]
    enable_sleeptime: bool | None
    agent_type: str
    llm_config: JsonObject
    embedding_config: JsonObject | None


@dataclass(frozen=True, slots=True)
class LostSleeptimeGroup:
    """A sleeptime group whose manager is gone, or all of its members."""

    id: str
    manager_agent_id: str
    org: str


@dataclass(frozen=True, slots=True)
class UnreviewedAgent:
    """An agent that wants a sleeptime group and has none."""

    id: str
    org: str


class SleeptimeQueries(Protocol):
    """What the handlers, the engine and the policies of sleeptime read."""

    async def reviewed_agent(self, org: str, agent_id: str) -> ReviewedAgent | None:
        """An agent, if there is one."""

    async def sleeptime_groups(self, org: str, agent_id: str) -> list[str]:
        """The sleeptime groups that an agent manages, the oldest first."""

    async def sleeptime_agents(self, org: str, agent_ids: list[str]) -> list[str]:
        """Those of these agents whose type says that they review others."""

    async def own_sleeptime_agents(self, org: str, manager: str, agent_ids: list[str]) -> list[str]:
        """Those of them that review no other agent than this one."""

    async def last_answer(
        self, org: str, run_id: str, after_message_id: str | None, after_at: datetime | None
    ) -> str | None:
        """The last message that a run answered with, if it came after a message, or after a time,
        if that is deleted."""

    async def unreviewed_messages(
        self, org: str, agent_id: str, after_message_id: str | None, after_at: datetime | None
    ) -> list[SaidMessage]:
        """What was said to an agent and by it after a message, or after a time, if the message is
        deleted; the oldest first."""

    async def reviewed_messages(
        self, org: str, agent_id: str, review: Review
    ) -> list[list[dict[str, Any]]]:
        """The V1 messages that a review is about, by stored messages, the oldest first."""

    async def due_reviews(self) -> list[DueWork]:
        """The groups that have reviews to start, and that no process works at."""

    async def lost_groups(self) -> list[LostSleeptimeGroup]:
        """Sleeptime groups whose manager was deleted, or all of whose members were."""

    async def agents_without_group(self) -> list[UnreviewedAgent]:
        """Agents that want a sleeptime group and never had one."""


class PostgresSleeptimeQueries:
    """Keeps the contract of `SleeptimeQueries`."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def reviewed_agent(self, org: str, agent_id: str) -> ReviewedAgent | None:
        row = await self.database.fetch_one(REVIEWED_AGENT, [agent_id, org])
        return ReviewedAgent(*row) if row else None

    async def sleeptime_groups(self, org: str, agent_id: str) -> list[str]:
        values = {"org": org, "agent": agent_id, "types": [*SLEEPTIME_TYPES]}
        return [group_id for (group_id,) in await self.database.fetch(GROUPS_OF, values)]

    async def sleeptime_agents(self, org: str, agent_ids: list[str]) -> list[str]:
        values = {"org": org, "ids": agent_ids, "types": [*SLEEPTIME_AGENT_TYPES]}
        return [agent_id for (agent_id,) in await self.database.fetch(SLEEPTIME_AGENTS, values)]

    async def own_sleeptime_agents(self, org: str, manager: str, agent_ids: list[str]) -> list[str]:
        values = {
            "org": org,
            "manager": manager,
            "ids": agent_ids,
            "types": [*SLEEPTIME_AGENT_TYPES],
            "group_types": [*SLEEPTIME_TYPES],
        }
        return [each for (each,) in await self.database.fetch(OWN_SLEEPTIME_AGENTS, values)]

    async def last_answer(
        self, org: str, run_id: str, after_message_id: str | None, after_at: datetime | None
    ) -> str | None:
        values = {"org": org, "run": run_id, "after": after_message_id, "after_at": after_at}
        row = await self.database.fetch_one(LAST_ANSWER, values)
        return str(row[0]) if row else None

    async def unreviewed_messages(
        self, org: str, agent_id: str, after_message_id: str | None, after_at: datetime | None
    ) -> list[SaidMessage]:
        values = {
            "org": org,
            "agent": agent_id,
            "after": after_message_id,
            "after_at": after_at,
            "limit": UNREVIEWED_MESSAGES_MAX,
        }
        return [SaidMessage(*row) for row in await self.database.fetch(UNREVIEWED, values)]

    async def reviewed_messages(
        self, org: str, agent_id: str, review: Review
    ) -> list[list[dict[str, Any]]]:
        values = {
            "org": org,
            "agent": agent_id,
            "after": review.after_message_id,
            "after_at": review.after_at,
            "last": review.last_message_id,
            "requested_at": review.requested_at,
            "limit": REVIEWED_MESSAGES_MAX,
        }
        return [v1_messages for (v1_messages,) in await self.database.fetch(REVIEWED, values)]

    async def due_reviews(self) -> list[DueWork]:
        if not await self.database.any_row("groups.reviews"):
            return []
        return [DueWork(*row) for row in await self.database.fetch(DUE_REVIEWS, [SWEPT_MAX])]

    async def lost_groups(self) -> list[LostSleeptimeGroup]:
        if not await self.database.any_row("groups.groups"):
            return []
        values = {"types": [*SLEEPTIME_TYPES], "limit": SWEPT_MAX}
        rows = await self.database.fetch(LOST_GROUPS, values)
        return [LostSleeptimeGroup(*row) for row in rows]

    async def agents_without_group(self) -> list[UnreviewedAgent]:
        rows = await self.database.fetch(WITHOUT_GROUP, [[*SLEEPTIME_TYPES]])
        agents = [UnreviewedAgent(*row) for row in rows]
        ids = {sleeptime_group(agent.id): agent for agent in agents}
        if not ids:
            return []
        had = await self.database.fetch(
            "select id from groups.created_group_view where id = any(%s)", [[*ids]]
        )
        left = [agent for group_id, agent in ids.items() if (group_id,) not in set(had)]
        return left[:SWEPT_MAX]
