"""Conversations whose calls wait for a client."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from libs.eventstore.connection_pool import Database

APPROVALS_SEEN_MAX = 1_000


@dataclass(frozen=True, slots=True)
class WaitingApproval:
    """A conversation that waits for its client, since when, and for how long at most."""

    conversation_id: str
    org: str
    requested_at: datetime
    seconds: float

    @property
    def until(self) -> datetime:
        """When the deadline passes, as the clock says of the process that asked."""
        return self.requested_at + timedelta(seconds=self.seconds)


class ApprovalQueries(Protocol):
    """What the sweep of approvals reads."""

    async def waiting_approvals(self, seconds_max: float) -> list[WaitingApproval]:
        """Those that have waited longest, `APPROVALS_SEEN_MAX` at most, with the time that each may
        wait."""
        ...


class PostgresApprovalQueries:
    """Keeps the contract of `ApprovalQueries`."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def waiting_approvals(self, seconds_max: float) -> list[WaitingApproval]:
        """Those that have waited longest."""
        if not await self.database.any_row("agent.approvals"):
            return []
        rows = await self.database.fetch(
            "select conversation_id, org, requested_at from agent.approvals"
            " order by requested_at limit %s",
            [APPROVALS_SEEN_MAX],
        )
        return [WaitingApproval(id, org, since, seconds_max) for id, org, since in rows]
