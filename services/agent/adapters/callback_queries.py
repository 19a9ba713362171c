"""The clients that wait to be told that their run has ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from libs.eventstore.connection_pool import Database

DUE_MAX = 16
# Among so many that are due, the oldest, whose turn it is, is looked for.
LOOKED_AT_MAX = 10_000


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


class CallbackQueries(Protocol):
    """What the sending of callbacks reads."""

    async def due_callbacks(self) -> list[DueCallback]:
        """Those whose time has come, `DUE_MAX` at most: of each conversation and for each host the
        oldest, then the second of each, and so on."""
        ...

    async def messages_of_run(self, org: str, run_id: str) -> list[dict[str, Any]]:
        """The V1 messages of a run, in order."""
        ...


class PostgresCallbackQueries:
    """Keeps the contract of `CallbackQueries`."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def due_callbacks(self) -> list[DueCallback]:
        """Those whose time has come, by turns."""
        if not await self.database.any_row("agent.callbacks"):
            return []
        rows = await self.database.fetch(
            "with due as (select c.*, r.doc, r.usage"
            " from agent.callbacks c cross join lateral"
            " (select org, status, doc, usage from agent.runs where id = c.run_id limit 1) r"
            " where r.org = c.org and r.status in ('completed', 'failed', 'cancelled')"
            " and c.next_at <= now() order by c.next_at limit %(looked_at)s),"
            " turns as (select *,"
            " row_number() over (partition by conversation_id order by next_at, run_id)"
            " as of_conversation,"
            " row_number() over (partition by split_part(url, '/', 3) order by next_at, run_id)"
            " as of_host from due)"
            " select run_id, org, conversation_id, url, attempts, doc, usage from turns"
            " order by greatest(of_conversation, of_host), next_at limit %(limit)s",
            {"looked_at": LOOKED_AT_MAX, "limit": DUE_MAX},
        )
        return [DueCallback(*row) for row in rows]

    async def messages_of_run(self, org: str, run_id: str) -> list[dict[str, Any]]:
        """The V1 messages of a run, in order."""
        rows = await self.database.fetch(
            "select docs from agent.messages where run_id = %s and org = %s order by position",
            [run_id, org],
        )
        return [doc for (docs,) in rows for doc in docs]
