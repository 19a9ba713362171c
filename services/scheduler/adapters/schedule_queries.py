"""Queries of the scheduler: the schedules with something to do, the state of what they started, and
whether the things that a schedule names exist."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from libs.eventstore.connection_pool import Database
from libs.work.deleted_agents import deleted_agents

# Schedules that one look finds; those of each organisation by turns.
DUE_MAX = 64

# How far something is that a firing started: none was accepted yet, it waits in line, it goes on,
# or how it ended. One that is `gone` was accepted and then deleted.
Progress = Literal["missing", "waiting", "running", "completed", "failed", "cancelled", "gone"]

MAYBE_DUE = (
    "scheduler.schedules where next_at <= now()",
    "scheduler.firings where status in ('running', 'retrying')",
    r"scheduler.leases where expires_at < now() and key like 'schedule-%'",
)
# A firing is looked at when its retry has come, and when what it started is not going on: either
# nobody has accepted it yet, or it has ended. With `all`, slots wait for room. The lease that a
# process left when it died is taken and given back.
DUE = """
with due as (
    select s.id, s.org, s.next_at as since from scheduler.schedules s
    where s.next_at <= now() and (s.fields->>'missed' <> 'all' or (
        select count(*) from scheduler.firings f
        where f.schedule_id = s.id and f.status in ('running', 'retrying')) < %(open)s)
    union all
    select f.schedule_id, f.org, f.retry_at from scheduler.firings f
    where f.status = 'retrying' and f.retry_at <= now()
    union all
    select f.schedule_id, f.org, f.created_at from scheduler.firings f
    left join lateral (
        select status from agent.run_view where id = f.run_id and org = f.org limit 1) r on true
    left join lateral (
        select status from agent.summary_view
        where id = f.run_id and org = f.org limit 1) m on true
    left join lateral (
        select status from tools.tool_run_view
        where id = f.run_id and org = f.org limit 1) t on true
    left join lateral (
        select status from groups.group_run_view
        where id = f.run_id and org = f.org limit 1) g on true
    where f.status = 'running'
      and coalesce(r.status, m.status, t.status, g.status, '') not in ('created', 'running')
    union all
    select l.key, coalesce(e.org, ''), l.expires_at from scheduler.leases l left join lateral (
        select org from scheduler.events where aggregate_id = l.key limit 1) e on true
    where l.expires_at < now() and l.key like 'schedule-%%'),
works as (select id, org, min(since) as since from due group by id, org),
ranked as (
    select id, org, since, row_number() over (partition by org order by since, id) as place
    from works w where not exists (
        select from scheduler.leases l where l.key = w.id and l.expires_at >= now()))
select id, org, now() from ranked order by place, since, id limit %(limit)s"""

STARTED_RUNS = """
select wanted.id,
    case when r.status is not null then r.status when c.org = %(org)s then 'gone'
         else 'missing' end,
    coalesce(r.error->>'message', r.stop_reason, '')
from unnest(%(ids)s::text[]) as wanted(id)
left join lateral (
    select status, error, stop_reason from agent.run_view
    where id = wanted.id and org = %(org)s limit 1) r on true
left join lateral (
    select org from agent.created_run_view where id = wanted.id limit 1) c on true"""
STARTED_TOOL_RUNS = """
select wanted.id, coalesce(t.status, 'missing'), coalesce(t.result->>'text', '')
from unnest(%(ids)s::text[]) as wanted(id) left join lateral (
    select status, result from tools.tool_run_view
    where id = wanted.id and org = %(org)s limit 1) t on true"""
STARTED_GROUP_RUNS = """
select wanted.id, coalesce(r.status, 'missing'), coalesce(r.fields->'error'->>'message', '')
from unnest(%(ids)s::text[]) as wanted(id) left join lateral (
    select status, fields from groups.group_run_view
    where id = wanted.id and org = %(org)s limit 1) r on true"""
STARTED_SUMMARIES = """
select wanted.id, coalesce(s.status, 'missing'), coalesce(s.error->>'message', '')
from unnest(%(ids)s::text[]) as wanted(id) left join lateral (
    select status, error from agent.summary_view
    where id = wanted.id and org = %(org)s limit 1) s on true"""
# What asks for the progress of what was started, by how its ids begin.
STARTED = {
    "run-": STARTED_RUNS,
    "tool_run-": STARTED_TOOL_RUNS,
    "group_run-": STARTED_GROUP_RUNS,
    "summary-": STARTED_SUMMARIES,
}
# What the statuses mean; any other means that it failed.
PROGRESS: dict[str, Progress] = {
    "missing": "missing",
    "gone": "gone",
    "created": "waiting",
    "running": "running",
    "completed": "completed",
    "success": "completed",
    "cancelled": "cancelled",
    "stopped": "cancelled",
}


OUTDATED = """
select old.id, old.org from (
    select agent_id, org from scheduler.schedules where status = 'completed' {chosen}
    group by agent_id, org having count(*) > %(kept)s limit %(limit)s) many
cross join lateral (
    select s.id, s.org from scheduler.schedules s
    where s.agent_id = many.agent_id and s.org = many.org and s.status = 'completed'
      and not exists (select from scheduler.firings f
                      where f.schedule_id = s.id and f.status in ('running', 'retrying'))
    order by s.created_at desc, s.id offset %(kept)s limit %(limit)s) old
limit %(limit)s"""


OF_AGENTS_OF = """and agent_id = any(array(
        select agent_id from scheduler.schedules where id = any(%(schedules)s::text[])))"""


@dataclass(frozen=True, slots=True)
class DueSchedule:
    """A schedule that has something to do, and the time of the database when that was found."""

    id: str
    org: str
    now: datetime


@dataclass(frozen=True, slots=True)
class Started:
    """The state of something that a firing started, and the reason why it failed."""

    progress: Progress
    error: str = ""


@dataclass(frozen=True, slots=True)
class ScheduleCounts:
    """The numbers of schedules that have not completed."""

    of_agent: int
    of_org: int


class ScheduleQueries(Protocol):
    """The queries of handlers, the engine and the policies."""

    async def now(self) -> datetime:
        """The time of the database, which decides when slots are due."""

    async def due_schedules(self, open_max: int) -> list[DueSchedule]:
        """Schedules that have something to do and that nobody holds the lease of. Those that have
        `open_max` open firings and may skip no slot are left out."""

    async def find_progress(self, org: str, run_ids: list[str]) -> dict[str, Started]:
        """The states of these runs of agents, tools and groups, and of these summaries."""

    async def counts(self, org: str, agent_id: str) -> ScheduleCounts:
        """The numbers of schedules of an agent and of an organisation."""

    async def has_agent(self, org: str, agent_id: str) -> bool:
        """Whether an organisation has such an agent."""

    async def has_conversation(self, org: str, agent_id: str, conversation_id: str) -> bool:
        """Whether an agent has such a conversation besides its own."""

    async def has_group(self, org: str, group_id: str) -> bool:
        """Whether an organisation has such a group."""

    async def abandoned_schedules(
        self, limit: int, agent_ids: list[str] | None
    ) -> list[tuple[str, str]]:
        """The ids and organisations of schedules of those of these agents, or of all, that were
        deleted."""

    async def outdated_schedules(
        self, kept: int, limit: int, schedule_ids: list[str] | None
    ) -> list[tuple[str, str]]:
        """The ids and organisations of schedules that are over, beyond so many of an agent; those
        of the agents of these schedules, or of some."""


class PostgresScheduleQueries:
    """Keeps the contract of `ScheduleQueries`."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def now(self) -> datetime:
        row = await self.database.fetch_one("select now()")
        assert row is not None
        moment: datetime = row[0]
        return moment

    async def due_schedules(self, open_max: int) -> list[DueSchedule]:
        if not await self.database.any_row(*MAYBE_DUE):
            return []
        rows = await self.database.fetch(DUE, {"limit": DUE_MAX, "open": open_max})
        return [DueSchedule(*row) for row in rows]

    async def find_progress(self, org: str, run_ids: list[str]) -> dict[str, Started]:
        found: dict[str, Started] = {}
        for prefix, query in STARTED.items():
            ids = [run_id for run_id in run_ids if run_id.startswith(prefix)]
            rows = await self.database.fetch(query, {"org": org, "ids": ids}) if ids else []
            for run_id, status, error in rows:
                found[run_id] = Started(PROGRESS.get(status, "failed"), error or status)
        return found

    async def counts(self, org: str, agent_id: str) -> ScheduleCounts:
        row = await self.database.fetch_one(
            "select (select count(*) from scheduler.schedules where agent_id = %(agent)s"
            " and org = %(org)s and status <> 'completed'),"
            ' (select count(*) from scheduler.schedules where org collate "C" = %(org)s'
            " and status <> 'completed')",
            {"org": org, "agent": agent_id},
        )
        assert row is not None
        return ScheduleCounts(*row)

    async def has_agent(self, org: str, agent_id: str) -> bool:
        row = await self.database.fetch_one(
            "select 1 from agent.agent_view where id = %s and org = %s", [agent_id, org]
        )
        return row is not None

    async def has_conversation(self, org: str, agent_id: str, conversation_id: str) -> bool:
        row = await self.database.fetch_one(
            "select 1 from agent.conversation_view where id = %s and org = %s and agent_id = %s",
            [conversation_id, org, agent_id],
        )
        return row is not None

    async def has_group(self, org: str, group_id: str) -> bool:
        row = await self.database.fetch_one(
            "select 1 from groups.group_view where id = %s and org = %s", [group_id, org]
        )
        return row is not None

    async def abandoned_schedules(
        self, limit: int, agent_ids: list[str] | None
    ) -> list[tuple[str, str]]:
        """The ids and organisations of schedules whose agents were deleted."""
        rows = await self.database.fetch(
            f"select s.id, s.org from {deleted_agents(agent_ids)} join scheduler.schedules s"
            " on s.agent_id = d.id and s.org = d.org order by s.id limit %(limit)s",
            {"agents": agent_ids, "limit": limit},
        )
        return [(schedule_id, org) for schedule_id, org in rows]

    async def outdated_schedules(
        self, kept: int, limit: int, schedule_ids: list[str] | None
    ) -> list[tuple[str, str]]:
        text = OUTDATED.format(chosen="" if schedule_ids is None else OF_AGENTS_OF)
        values = {"kept": kept, "limit": limit, "schedules": schedule_ids}
        rows = await self.database.fetch(text, values)
        return [(schedule_id, org) for schedule_id, org in rows]
