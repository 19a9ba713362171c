"""Runs by their request and by their steps, cancelled runs, and runs that nobody drives."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from libs.eventstore.connection_pool import Database
from services.agent.adapters.reconciliation_queries import SWEPT_MAX

# Where there is neither of these, nothing is orphaned; the first condition on runs is that of
# their index.
MAYBE_ORPHANED = (
    "agent.leases where expires_at < now() and key like 'conv-%'",
    "agent.runs where status in ('created', 'running') and status = 'running'",
)
# A turn without a lease should not be. It is looked for all the same, because nobody else would
# ever find it: among the runs that have not ended, by their index.
ORPHANED_TURNS = """
(select l.key, coalesce(e.org, ''), '' from agent.leases l left join lateral (
    select org from agent.events where aggregate_id = l.key limit 1) e on true
 where l.expires_at < now() and l.key like 'conv-%%' and l.key <> all(%(but)s)
 order by l.expires_at limit %(limit)s)
union all
(select r.conversation_id, r.org, '' from agent.runs r
 where r.status in ('created', 'running') and r.status = 'running'
   and r.conversation_id <> all(%(but)s)
   and not exists (select from agent.leases l where l.key = r.conversation_id)
 limit %(limit)s)"""


@dataclass(frozen=True, slots=True)
class Orphan:
    """Something that should be worked on, and that nobody works on."""

    id: str
    org: str
    actor: str


class RunQueries(Protocol):
    """What handlers, the engine and its telemetry read of runs."""

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
        ...

    async def cancelled_runs(self, orgs: list[str], run_ids: list[str]) -> list[str]:
        """Those of these runs of these organisations that were cancelled."""
        ...

    async def active_runs(self, orgs: list[str], run_ids: list[str]) -> list[str]:
        """Those of these runs of these organisations that have not ended."""
        ...

    async def orphaned_turns(self, but: list[str]) -> list[Orphan]:
        """Conversations whose turn nobody drives, without those that are named."""
        ...

    async def origin_of_run(self, org: str, conversation_id: str, run_id: str) -> str:
        """The span in which a run was accepted, as W3C writes it; empty if nobody traced it."""
        ...

    async def run_of_step(self, org: str, conversation_id: str, step_id: str) -> str | None:
        """The run of a step; None if the conversation has no such step."""
        ...

    async def has_run(self, org: str, conversation_id: str, run_id: str) -> bool:
        """Whether the conversation has such a run."""
        ...


class PostgresRunQueries:
    """Keeps the contract of `RunQueries`."""

    def __init__(self, database: Database) -> None:
        self.database = database

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

    async def orphaned_turns(self, but: list[str]) -> list[Orphan]:
        """Conversations whose turn nobody drives: its lease has run out, or there is none. One
        that was deleted meanwhile has no messages and no turn; but its lease is still there, and
        somebody has to clear it away."""
        if not await self.database.any_row(*MAYBE_ORPHANED):
            return []
        rows = await self.database.fetch(ORPHANED_TURNS, {"limit": SWEPT_MAX, "but": but})
        return [Orphan(*row) for row in rows]

    async def origin_of_run(self, org: str, conversation_id: str, run_id: str) -> str:
        """The span in which a run was accepted, as W3C writes it; empty if nobody traced it."""
        row = await self.database.fetch_one(
            "select metadata->>'traceparent' from agent.events where aggregate_id = %s"
            " and topic = 'run.accepted' and about = %s and org = %s order by version desc limit 1",
            [conversation_id, run_id, org],
        )
        return row[0] or "" if row else ""

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
