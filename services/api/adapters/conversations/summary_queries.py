"""Queries about summaries, from the view that the agent service publishes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from libs.eventstore.connection_pool import DatabaseQueries


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """A summary: `running`, `completed` or `failed`, why it failed, and as clients read it."""

    status: str
    error: dict[str, Any] | None
    fields: dict[str, Any]


class SummaryQueries(DatabaseQueries):
    """Reads summaries."""

    async def summary(self, org: str, summary_id: str) -> SummaryRow | None:
        """A summary; None for one that is not there."""
        row = await self.database.fetch_one(
            "select status, error, fields from agent.summary_view where id = %s and org = %s",
            [summary_id, org],
        )
        return SummaryRow(*row) if row else None
