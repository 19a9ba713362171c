"""Batches that can be carried on, their items, and the conversations that items leave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from libs.contracts.agent.batches import ITEMS_AT_ONCE_MAX, BatchItem
from libs.eventstore.connection_pool import DatabaseQueries
from libs.work.work_lease import DueWork

ACTIVE = ("created", "running")
MAYBE_DUE = "agent.batches where completed_at is null"
# The batches that have not ended are looked at, those that came first before the others.
LOOKED_AT_MAX = 1_000
DUE_BATCHES = """
with looked_at as (
    select id, org, created_at, status, at_once from agent.batches
    where completed_at is null order by created_at limit %(looked_at)s),
due as (
    select b.id, b.org, b.created_at
    from looked_at b
    cross join lateral (
        select count(*) as running,
               count(*) filter (where r.status is null or r.status not in ('created', 'running'))
                   as ended
        from agent.batch_items i left join lateral
            (select status from agent.runs where id = i.run_id limit 1) r on true
        where i.batch_id = b.id and i.status = 'running') runs
    where (runs.ended > 0
           or (b.status = 'cancelled' and runs.running > 0)
           or (runs.running < b.at_once and exists (
               select from agent.batch_items p
               where p.batch_id = b.id and p.status = 'pending'
                 and (select count(*) from agent.batch_items busy
                      where busy.agent_id = p.agent_id and busy.status = 'running')
                     < %(of_agent)s))
           or (runs.running = 0 and not exists (
               select from agent.batch_items p
               where p.batch_id = b.id and p.status = 'pending')))
      and not exists (select from agent.leases l where l.key = b.id and l.expires_at > now())),
turns as (
    select id, org, row_number() over (partition by org order by created_at, id) as turn, created_at
    from due)
select id, org from turns order by turn, created_at, id limit %(limit)s"""


CALLBACK_LEASE_PREFIX = "callback-"
HAS_CALLBACK = "callback_url is not null and callback_next_at is not null"
MAYBE_CALLBACKS = f"agent.batches where {HAS_CALLBACK} and callback_next_at <= now()"
DUE_CALLBACKS = f"""
select b.id, b.org, b.callback_url, b.callback_attempts, b.status, b.fields->>'completed_at'
from agent.batches b
where {HAS_CALLBACK} and b.callback_next_at <= now()
  and not exists (select from agent.leases l
                  where l.key = %(lease_prefix)s || b.id and l.expires_at > now())
order by b.callback_next_at limit %(limit)s"""


@dataclass(frozen=True, slots=True)
class DueBatchCallback:
    """A batch that has ended, and whom to tell; after so many attempts."""

    batch_id: str
    org: str
    url: str
    attempts: int
    status: str
    completed_at: str

    @property
    def id(self) -> str:
        """The key of the lease that it is sent under."""
        return CALLBACK_LEASE_PREFIX + self.batch_id


@dataclass(frozen=True, slots=True)
class StoredItem:
    """An item, and how far its run is: `status` is None where there is no such run (any more)."""

    number: int
    request: BatchItem
    status: str | None
    stop_reason: str
    usage: dict[str, Any] | None
    error: dict[str, Any] | None

    @property
    def has_ended(self) -> bool:
        """Whether its run has ended."""
        return self.status is not None and self.status not in ACTIVE


@dataclass(frozen=True, slots=True)
class LeftConversation:
    """A conversation that was made for an item, and is still there."""

    id: str
    agent_id: str


class BatchQueries(DatabaseQueries):
    """The queries of handlers and engine about batches."""

    async def due_batches(self, limit: int) -> list[DueWork]:
        """Batches that can be carried on and that nobody carries on, those of each organisation by
        turns: a run has ended, an item can be started, or all have ended."""
        rows = await self.database.fetch(
            DUE_BATCHES,
            {"looked_at": LOOKED_AT_MAX, "of_agent": ITEMS_AT_ONCE_MAX, "limit": limit},
        )
        return [DueWork(*row) for row in rows]

    async def has_open_batches(self) -> bool:
        """Whether any batch has not ended."""
        return await self.database.any_row(MAYBE_DUE)

    async def due_batch_callbacks(self, limit: int) -> list[DueBatchCallback]:
        """The batches whose clients are to be told now that they have ended, and that nobody
        tells."""
        if not await self.database.any_row(MAYBE_CALLBACKS):
            return []
        rows = await self.database.fetch(
            DUE_CALLBACKS, {"lease_prefix": CALLBACK_LEASE_PREFIX, "limit": limit}
        )
        return [DueBatchCallback(*row) for row in rows]

    async def open_batches(self, org: str) -> int:
        """The number of an organisation's batches that have not ended."""
        row = await self.database.fetch_one(
            "select count(*) from agent.batches where completed_at is null and org = %s", [org]
        )
        return int(row[0]) if row else 0

    async def batch_items(self, org: str, batch_id: str, numbers: list[int]) -> list[StoredItem]:
        """These items of a batch with their runs, in order."""
        rows = await self.database.fetch(
            "select i.number, i.request, r.status, coalesce(r.stop_reason, ''), r.usage, r.error"
            " from agent.batch_items i left join lateral"
            " (select status, stop_reason, usage, error from agent.runs"
            "  where id = i.run_id limit 1) r on true"
            " where i.batch_id = %s and i.org = %s and i.number = any(%s) order by i.number",
            [batch_id, org, numbers],
        )
        return [
            StoredItem(number, BatchItem.model_validate(request), *run)
            for number, request, *run in rows
        ]

    async def busy_agents(self, org: str, batch_id: str) -> set[str]:
        """Agents of a batch of which as many items run, of all batches, as may at once."""
        rows = await self.database.fetch(
            "select a.agent_id from (select distinct agent_id from agent.batch_items"
            "  where batch_id = %(batch)s and org = %(org)s offset 0) a cross join lateral"
            " (select count(*) as items from (select from agent.batch_items"
            "  where agent_id = a.agent_id and status = 'running' limit %(max)s) r) running"
            " where running.items >= %(max)s",
            {"org": org, "batch": batch_id, "max": ITEMS_AT_ONCE_MAX},
        )
        return {agent_id for (agent_id,) in rows}

    async def left_conversations(
        self, org: str, batch_id: str, numbers: list[int] | None
    ) -> list[LeftConversation]:
        """The conversations of these items, or of all, which were made for them and are still
        there."""
        rows = await self.database.fetch(
            "select c.id, i.agent_id from agent.batch_items i cross join lateral"
            " (select id, org from agent.conversations where id = i.conversation_id limit 1) c"
            " where i.batch_id = %(batch)s and c.org = %(org)s"
            " and (%(numbers)s::int[] is null or i.number = any(%(numbers)s))"
            " order by i.number",
            {"org": org, "batch": batch_id, "numbers": numbers},
        )
        return [LeftConversation(*row) for row in rows]
