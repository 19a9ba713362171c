"""Runs by their request and by their steps, runs that have no living attempt, runs that other
agents called, and the callbacks that are due."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter

from libs.contracts.agent.runs import CallingRun
from libs.eventstore.connection_pool import DatabaseQueries
from libs.work.agent_runs import PostgresAgentRunQueries
from services.agent.adapters.reconciliation_queries import SWEPT_MAX
from services.agent.domain.runs.agent_call_deadlocks import WaitingCall

# Where there is neither of these, nothing is orphaned; the first condition on runs is that of
# their index.
MAYBE_ORPHANED = (
    "agent.leases where expires_at < now() and key like 'conv-%'",
    "agent.runs where status in ('created', 'running') and status = 'running'",
)
# An active run should always have a lease. One without is looked for all the same, because nothing
# else would ever find it: among the runs that have not ended, by their index. Those of an import
# that is under way have no agent yet, and nobody is to attempt them.
ORPHANED_RUNS = """
(select l.key, coalesce(e.org, ''), '' from agent.leases l left join lateral (
    select org from agent.events where aggregate_id = l.key limit 1) e on true
 where l.expires_at < now() and l.key like 'conv-%%' and l.key <> all(%(but)s)
 order by l.expires_at limit %(limit)s)
union all
(select r.conversation_id, r.org, '' from agent.runs r
 where r.status in ('created', 'running') and r.status = 'running'
   and r.conversation_id <> all(%(but)s)
   and not exists (select from agent.leases l where l.key = r.conversation_id)
   and exists (select from agent.agents a where a.id = r.agent_id)
 limit %(limit)s)"""


@dataclass(frozen=True, slots=True)
class Orphan:
    """Something that should be worked on, and that nobody works on."""

    id: str
    org: str
    actor: str


@dataclass(frozen=True, slots=True)
class RunOrigin:
    """The origin of a run: the first request of its chain, the sender, and the span it was sent in,
    as W3C writes it; empty without a trace."""

    correlation_id: str = ""
    actor: str = ""
    traceparent: str = ""


class RunQueries(DatabaseQueries):
    """The queries of handlers, the engine and its telemetry about runs."""

    async def latest_run(
        self,
        org: str,
        agent_id: str,
        conversation_id: str,
        request_hash: str,
        since: datetime,
        excluded: list[str],
    ) -> str | None:
        """The newest run of a conversation that the same request started, and that is not
        excluded."""
        row = await self.database.fetch_one(
            "select id from agent.runs where agent_id = %s and conversation_id = %s"
            " and request_hash = %s and org = %s"
            " and created_at > %s and id <> all(%s) order by created_at desc limit 1",
            [agent_id, conversation_id, request_hash, org, since, excluded],
        )
        return row[0] if row else None

    async def cancelled_runs(self, orgs: list[str], run_ids: list[str]) -> list[str]:
        """Those of these runs of these organisations that were cancelled."""
        rows = await self.database.fetch(
            "select r.id from unnest(%s::text[]) as wanted(id) cross join lateral"
            " (select id, org, status from agent.runs where id = wanted.id limit 1) r"
            " where r.org = any(%s) and r.status = 'cancelled'",
            [run_ids, orgs],
        )
        return [run_id for (run_id,) in rows]

    async def active_runs(self, orgs: list[str], run_ids: list[str]) -> list[str]:
        """Those of these runs of these organisations that have not ended."""
        rows = await self.database.fetch(
            "select r.id from unnest(%s::text[]) as wanted(id) cross join lateral"
            " (select id, org, status from agent.runs where id = wanted.id limit 1) r"
            " where r.org = any(%s) and r.status in ('created', 'running')",
            [run_ids, orgs],
        )
        return [run_id for (run_id,) in rows]

    async def orphaned_runs(self, but: list[str]) -> list[Orphan]:
        """Conversations whose active run no process attempts, without those that are named: its
        lease has expired, or there is none. A conversation that was deleted meanwhile has no
        messages and no active run, but its lease is still there and has to be removed."""
        if not await self.database.any_row(*MAYBE_ORPHANED):
            return []
        rows = await self.database.fetch(ORPHANED_RUNS, {"limit": SWEPT_MAX, "but": but})
        return [Orphan(*row) for row in rows]

    async def origin_of_run(self, org: str, conversation_id: str, run_id: str) -> RunOrigin | None:
        """The origin of a run; None for one that is not there."""
        row = await self.database.fetch_one(
            "select metadata->>'correlation_id', metadata->>'actor', metadata->>'traceparent'"
            " from agent.events where aggregate_id = %s"
            " and topic = 'run.accepted' and about = %s and org = %s order by version desc limit 1",
            [conversation_id, run_id, org],
        )
        return RunOrigin(*(value or "" for value in row)) if row else None

    async def run_of_step(self, org: str, conversation_id: str, step_id: str) -> str | None:
        """The run of a step; None if the conversation has no such step."""
        row = await self.database.fetch_one(
            "select run_id from agent.steps where id = %s and conversation_id = %s and org = %s",
            [step_id, conversation_id, org],
        )
        return row[0] if row else None

    async def has_run(self, org: str, conversation_id: str, run_id: str) -> bool:
        """Whether the conversation has such a run."""
        row = await self.database.fetch_one(
            "select from agent.runs where id = %s and conversation_id = %s and org = %s",
            [run_id, conversation_id, org],
        )
        return row is not None


LEASE_PREFIX = "callback-"
# Among so many that are due, the oldest, whose turn it is, is looked for.
LOOKED_AT_MAX = 10_000
DUE_CALLBACKS = """
with due as (
    select c.*, r.fields, r.usage
    from agent.callbacks c cross join lateral
        (select org, status, fields, usage from agent.runs where id = c.run_id limit 1) r
    where r.org = c.org and r.status in ('completed', 'failed', 'cancelled') and c.next_at <= now()
    order by c.next_at limit %(looked_at)s),
turns as (
    select *, greatest(
        row_number() over (partition by conversation_id order by next_at, run_id),
        row_number() over (partition by split_part(url, '/', 3) order by next_at, run_id)) as turn
    from due),
places as (
    select *, row_number() over (partition by org order by turn, next_at, run_id) as place
    from turns)
select run_id, org, conversation_id, url, attempts, fields, usage from places
where place <= %(of_org)s
  and not exists (select from agent.leases l
                  where l.key = %(lease_prefix)s || run_id and l.expires_at > now())
order by place, turn, next_at limit %(limit)s"""


@dataclass(frozen=True, slots=True)
class DueCallback:
    """A run that has ended, as V1 shows it, and whom to tell; after so many attempts."""

    run_id: str
    org: str
    conversation_id: str
    url: str
    attempts: int
    run: dict[str, Any]
    usage: dict[str, Any] | None

    @property
    def id(self) -> str:
        """The key of the lease that it is sent under."""
        return LEASE_PREFIX + self.run_id


class CallbackQueries(DatabaseQueries):
    """The queries of the sender of callbacks."""

    async def due_callbacks(self, of_org: int, limit: int) -> list[DueCallback]:
        """The callbacks whose time has come and that nobody sends: of each organisation the first,
        then the second, and at most `of_org`; of each conversation and for each host likewise."""
        if not await self.database.any_row("agent.callbacks"):
            return []
        rows = await self.database.fetch(
            DUE_CALLBACKS,
            {
                "looked_at": LOOKED_AT_MAX,
                "of_org": of_org,
                "limit": limit,
                "lease_prefix": LEASE_PREFIX,
            },
        )
        return [DueCallback(*row) for row in rows]


# How many calls that wait for each other are looked at.
WAITING_CALLS_MAX = 1_000
CALLERS = TypeAdapter(list[CallingRun])
# From the conversation of one call on: the calls that the run which is active there waits for, and
# so forth. A caller that has ended waits for nothing.
WAITING_CALLS = """
with recursive ahead as (
    select c.run_id, c.conversation_id, c.caller_conversation_id, r.status
    from agent.called_runs c cross join lateral
        (select org, status from agent.runs where id = c.run_id limit 1) r
    where c.run_id = %(run_id)s and c.org = %(org)s and r.org = c.org
    union
    select c.run_id, c.conversation_id, c.caller_conversation_id, r.status
    from ahead a cross join lateral
        (select * from agent.called_runs where caller_conversation_id = a.conversation_id
         limit %(limit)s) c
    cross join lateral (select org, status from agent.runs where id = c.run_id limit 1) r
    cross join lateral
        (select org, status from agent.runs where id = c.caller_run_id limit 1) caller
    where c.waits and c.org = %(org)s and r.org = c.org and caller.org = c.org
      and caller.status = 'running' and r.status in ('created', 'running'))
select run_id, conversation_id, caller_conversation_id, status = 'created' from ahead
limit %(limit)s"""


@dataclass(frozen=True, slots=True)
class CallChain:
    """The conversation of a run, and the runs whose calls led to it; none where a client asked."""

    conversation_id: str
    callers: list[CallingRun]


class CalledRunQueries(PostgresAgentRunQueries):
    """The queries of an agent that calls others."""

    async def call_chain(self, org: str, run_id: str) -> CallChain | None:
        """The conversation of a run, and what led to it; None if it is deleted."""
        row = await self.database.fetch_one(
            "select r.conversation_id,"
            " (select callers from agent.called_runs where run_id = r.id limit 1)"
            " from agent.runs r where r.id = %s and r.org = %s",
            [run_id, org],
        )
        return CallChain(row[0], CALLERS.validate_python(row[1] or [])) if row else None

    async def waiting_calls(self, org: str, run_id: str) -> list[WaitingCall]:
        """A call, and those that have to be answered before it can be."""
        rows = await self.database.fetch(
            WAITING_CALLS, {"run_id": run_id, "org": org, "limit": WAITING_CALLS_MAX}
        )
        return [WaitingCall(*row) for row in rows]

    async def agents_with_tags(
        self, org: str, every: list[str], some: list[str], limit: int
    ) -> list[str]:
        """Agents with all of the first tags, and with one at least of the second if there are any;
        the oldest first."""
        rows = await self.database.fetch(
            'select id from agent.agents where org collate "C" = %(org)s and not hidden'
            " and tags @> %(every)s::text[]"
            " and (%(some)s::text[] = '{}' or tags && %(some)s::text[])"
            ' order by created_at, id collate "C" limit %(limit)s',
            {"org": org, "every": every, "some": some, "limit": limit},
        )
        return [agent_id for (agent_id,) in rows]
