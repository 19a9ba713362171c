"""What replays of runs read: the run, the histories of aggregates, and which replays are due."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from libs.contracts.agent.run_replays import ReplayedRun
from libs.eventstore.connection_pool import Database
from libs.eventstore.ports import StoredEvent
from services.agent.adapters.reconciliation_queries import SWEPT_MAX

HISTORY_PAGE_EVENTS_MAX = 200
UNFINISHED = "agent.run_replays where status = 'running'"
RUN = """
select r.agent_id, r.conversation_id, a.version, r.status,
       (select count(*) from agent.step_view s
        where s.run_id = r.id and s.org = r.org and s.topic = 'model.replied'),
       coalesce((select array_agg(distinct c.call->>'name')
        from agent.step_view s, json_array_elements(s.payload->'tool_calls') c (call)
        where s.run_id = r.id and s.org = r.org and s.topic = 'model.replied'
          and (c.call->>'gated')::boolean), '{}'),
       a.compaction
from agent.runs r cross join lateral (
    select version, payload::jsonb ? 'compaction' as compaction from agent.events
    where topic = 'run.accepted' and about = r.id and aggregate_id = r.conversation_id limit 1) a
where r.id = %(run)s and r.org = %(org)s"""
HISTORY = """
select aggregate_id, version, topic, schema_version, org, about, payload::text, metadata,
       occurred_at, 0, commit_order
from agent.events where aggregate_id = %(aggregate)s and org = %(org)s and version > %(after)s
order by version limit %(limit)s"""
DUE = """
select id, org from (
    select r.*, row_number() over (partition by r.org order by r.created_at, r.id) as place
    from agent.run_replays r
    where r.status = 'running' and not exists (
        select from agent.leases l where l.key = r.id and l.expires_at > now())
) due
where place <= %(of_org)s order by place, created_at limit %(limit)s"""
LOST = """
select p.id, p.org from agent.run_replays p
where not exists (select from agent.runs r where r.id = p.run_id and r.org = p.org)
limit %(limit)s"""


@dataclass(frozen=True, slots=True)
class RunToReplay:
    """A run as the decision about a replay needs it: `gated` are the tools whose calls waited for a
    client, `steps` how many its models answered."""

    run: ReplayedRun
    status: str
    steps: int
    gated: list[str]
    is_compaction: bool

    @property
    def has_ended(self) -> bool:
        """Whether nothing comes any more."""
        return self.status not in ("created", "running")


@dataclass(frozen=True, slots=True)
class DueReplay:
    """A replay that nobody carries on, or whose run is gone."""

    id: str
    org: str


class ReplayQueries(Protocol):
    """What is read for replays."""

    async def run_to_replay(self, org: str, run_id: str) -> RunToReplay | None:
        """A run of an organisation; None for one that is not there."""
        ...

    async def history_page_of(self, org: str, aggregate_id: str, after: int) -> list[StoredEvent]:
        """The next events of an aggregate after a version, at most `HISTORY_PAGE_EVENTS_MAX`; the
        last page is shorter."""
        ...

    async def open_replays(self, org: str) -> int:
        """How many replays of an organisation have not ended."""
        ...

    async def due_replays(self, of_org: int, limit: int) -> list[DueReplay]:
        """Replays that nobody carries on; at most `of_org` of each organisation."""
        ...

    async def lost_replays(self) -> list[DueReplay]:
        """Replays whose run is gone; `SWEPT_MAX` at most."""
        ...


class PostgresReplayQueries:
    """Keeps the contract of `ReplayQueries`."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def run_to_replay(self, org: str, run_id: str) -> RunToReplay | None:
        """A run of an organisation; None for one that is not there."""
        row = await self.database.fetch_one(RUN, {"org": org, "run": run_id})
        if row is None:
            return None
        agent_id, conversation_id, version, status, steps, gated, is_compaction = row
        run = ReplayedRun(
            run_id=run_id,
            agent_id=agent_id,
            conversation_id=conversation_id,
            accepted_version=version,
        )
        return RunToReplay(run, status, steps, sorted(gated), is_compaction)

    async def history_page_of(self, org: str, aggregate_id: str, after: int) -> list[StoredEvent]:
        """The next events of an aggregate after a version."""
        rows = await self.database.fetch(
            HISTORY,
            {
                "aggregate": aggregate_id,
                "org": org,
                "after": after,
                "limit": HISTORY_PAGE_EVENTS_MAX,
            },
        )
        return [StoredEvent(*row) for row in rows]

    async def open_replays(self, org: str) -> int:
        """How many replays of an organisation have not ended."""
        row = await self.database.fetch_one(
            "select count(*) from agent.run_replays where status = 'running' and org = %s", [org]
        )
        return row[0] if row else 0

    async def due_replays(self, of_org: int, limit: int) -> list[DueReplay]:
        """Replays that nobody carries on; at most `of_org` of each organisation."""
        if not await self.database.any_row(UNFINISHED):
            return []
        rows = await self.database.fetch(DUE, {"of_org": of_org, "limit": limit})
        return [DueReplay(*row) for row in rows]

    async def lost_replays(self) -> list[DueReplay]:
        """Replays whose run is gone."""
        rows = await self.database.fetch(LOST, {"limit": SWEPT_MAX})
        return [DueReplay(*row) for row in rows]
