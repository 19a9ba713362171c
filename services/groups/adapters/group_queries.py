"""What is decided about groups by: agents and blocks that exist, and what is to be put right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from libs.eventstore.connection_pool import Database
from libs.work.deleted_agents import deleted_agents
from services.groups.domain.group_rules import GroupFacts, KnownAgent

SWEPT_MAX = 100

AGENTS = """
select a.id, a.name, coalesce((
    select jsonb_object_agg(b.label, b.id) from unnest(a.block_ids) as attached(id)
    cross join lateral (select id, org, label from memory.block_view
        where id = attached.id limit 1) b
    where b.org = a.org), '{}')
from unnest(%(ids)s::text[]) as wanted(id)
cross join lateral (select id, org, name, block_ids from agent.agent_view
    where id = wanted.id limit 1) a
where a.org = %(org)s"""

BLOCKS = """
select b.id, b.label from unnest(%(ids)s::text[]) as wanted(id)
cross join lateral (select id, org, label from memory.block_view where id = wanted.id limit 1) b
where b.org = %(org)s"""

GROUP_COUNT = 'select count(*) from groups.groups where org collate "C" = %s'

# From the events of agents, so that an empty read model takes nobody from a group. Sleeptime groups
# go as a whole with any of their agents: see `LOST_GROUPS`.
LOST_MEMBERS = """
select m.group_id, m.agent_id, m.org from {deleted}
join groups.group_members m on m.agent_id = d.id and m.org = d.org
join groups.groups g on g.id = m.group_id
where (g.manager_type not in ('sleeptime', 'voice_sleeptime') or exists (
    select from unnest(g.agent_ids) as other(id) where not exists (
        select from agent.deleted_agent_view d where d.id = other.id and d.org = g.org)))
order by m.id limit %(limit)s"""

WITH_BLOCKS = "groups.groups g where g.fields->'shared_block_ids' <> '[]'"
LOST_BLOCKS = f"""
select g.id, b.id, g.org from (select id, org, fields from {WITH_BLOCKS}) g
cross join jsonb_array_elements_text(g.fields->'shared_block_ids') as b(id)
where not exists (select from memory.block_view v where v.id = b.id and v.org = g.org)
limit %(limit)s"""

# Groups that have not yet shared a block with an agent, or not yet taken one back.
UNEQUAL_BLOCKS = f"""
select distinct id, org from (
    select g.id, g.org
    from (select id, org, fields, agent_ids || array_remove(array[manager_agent_id], null)
              as agent_ids from {WITH_BLOCKS} and (%(groups)s::text[] is null
              or g.id = any(%(groups)s))) g
    cross join unnest(g.agent_ids) as a(id)
    cross join jsonb_array_elements_text(g.fields->'shared_block_ids') as b(id)
    join memory.block_view v on v.id = b.id and v.org = g.org
    join agent.agent_view w on w.id = a.id and w.org = g.org
    where not exists (select from groups.shared_blocks s
        where s.id = g.id || ' ' || a.id || ' ' || b.id)
    union all
    select s.group_id, s.org from groups.shared_blocks s
    left join groups.groups g on g.id = s.group_id
    where (%(groups)s::text[] is null or s.group_id = any(%(groups)s))
      and (s.status = 'offered' or g.id is null or not g.fields->'shared_block_ids' ? s.block_id
        or not (s.agent_id = any(g.agent_ids) or s.agent_id = coalesce(g.manager_agent_id, '')))
) due order by id limit %(limit)s"""

SHARED_BY_OTHERS = """
select s.group_id, s.agent_id || ' ' || s.block_id, s.status from groups.shared_blocks s
where s.agent_id = any(%(agents)s) and s.group_id <> %(group)s and s.org = %(org)s
  and s.status <> 'had_before'"""


@dataclass(frozen=True, slots=True)
class LostPart:
    """An agent or a block that a group still has, and that is gone."""

    group_id: str
    part_id: str
    org: str


@dataclass(frozen=True, slots=True)
class OtherSharing:
    """A block (`MemberBlock.key`) that another group has offered, or shared."""

    group_id: str
    key: str
    status: str


@dataclass(frozen=True, slots=True)
class UnequalGroup:
    """A group whose shared blocks are not yet those of its agents."""

    group_id: str
    org: str


class GroupQueries(Protocol):
    """What the handlers and policies of groups read."""

    async def facts(self, org: str, agent_ids: list[str], block_ids: list[str]) -> GroupFacts:
        """Those of these agents and blocks that the organisation has."""

    async def group_count(self, org: str) -> int:
        """How many groups the organisation has."""

    async def shared_by_others(
        self, org: str, group_id: str, agent_ids: list[str]
    ) -> list[OtherSharing]:
        """What other groups have offered to these agents, or shared with them."""

    async def lost_members(self, agent_ids: list[str] | None) -> list[LostPart]:
        """Those of these agents, or of all, that were deleted and are members of groups;
        `SWEPT_MAX` at most."""

    async def lost_blocks(self) -> list[LostPart]:
        """Shared blocks that are gone, `SWEPT_MAX` at most."""

    async def unequal_groups(self, group_ids: list[str] | None) -> list[UnequalGroup]:
        """Those of these groups, or of all, whose shared blocks are not yet those of their agents,
        `SWEPT_MAX` at most."""


class PostgresGroupQueries:
    """Keeps the contract of `GroupQueries`."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def facts(self, org: str, agent_ids: list[str], block_ids: list[str]) -> GroupFacts:
        agents = await self.database.fetch(AGENTS, {"org": org, "ids": agent_ids})
        blocks: list[tuple[str, str]] = []
        if block_ids:
            blocks = await self.database.fetch(BLOCKS, {"org": org, "ids": block_ids})
        return GroupFacts(
            {agent_id: KnownAgent(name, labels) for agent_id, name, labels in agents},
            dict(blocks),
        )

    async def group_count(self, org: str) -> int:
        row = await self.database.fetch_one(GROUP_COUNT, [org])
        return int(row[0]) if row else 0

    async def shared_by_others(
        self, org: str, group_id: str, agent_ids: list[str]
    ) -> list[OtherSharing]:
        values = {"org": org, "group": group_id, "agents": agent_ids}
        return [OtherSharing(*row) for row in await self.database.fetch(SHARED_BY_OTHERS, values)]

    async def lost_members(self, agent_ids: list[str] | None) -> list[LostPart]:
        if agent_ids is None and not await self.database.any_row("groups.group_members"):
            return []
        text = LOST_MEMBERS.format(deleted=deleted_agents(agent_ids))
        rows = await self.database.fetch(text, {"agents": agent_ids, "limit": SWEPT_MAX})
        return [LostPart(*row) for row in rows]

    async def lost_blocks(self) -> list[LostPart]:
        if not await self.database.any_row("groups.groups"):
            return []
        rows = await self.database.fetch(LOST_BLOCKS, {"limit": SWEPT_MAX})
        return [LostPart(*row) for row in rows]

    async def unequal_groups(self, group_ids: list[str] | None) -> list[UnequalGroup]:
        """The groups whose shared blocks are not yet those of their agents."""
        if not await self.database.any_row("groups.groups", "groups.shared_blocks"):
            return []
        values = {"groups": group_ids, "limit": SWEPT_MAX}
        return [UnequalGroup(*row) for row in await self.database.fetch(UNEQUAL_BLOCKS, values)]
