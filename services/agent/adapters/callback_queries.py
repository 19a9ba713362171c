"""The clients that wait to be told that their run has ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from libs.eventstore.connection_pool import Database

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


class CallbackQueries(Protocol):
    """What the sending of callbacks reads."""

    async def due_callbacks(self, of_org: int, limit: int) -> list[DueCallback]:
        """The callbacks whose time has come and that nobody sends: of each organisation the first,
        then the second, and at most `of_org`; of each conversation and for each host likewise."""
        ...

    async def messages_of_run(self, org: str, run_id: str) -> list[dict[str, Any]]:
        """The V1 messages of a run, in order."""
        ...


class PostgresCallbackQueries:
    """Keeps the contract of `CallbackQueries`."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def due_callbacks(self, of_org: int, limit: int) -> list[DueCallback]:
        """The callbacks whose time has come and that nobody sends, by turns."""
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

    async def messages_of_run(self, org: str, run_id: str) -> list[dict[str, Any]]:
        """The V1 messages of a run, in order."""
        rows = await self.database.fetch(
            "select v1_messages from agent.messages where run_id = %s and org = %s"
            " order by position",
            [run_id, org],
        )
        return [v1_message for (v1_messages,) in rows for v1_message in v1_messages]
