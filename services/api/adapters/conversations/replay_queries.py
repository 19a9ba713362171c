"""Queries about replays of runs, from the view that the agent service publishes."""

from __future__ import annotations

from libs.eventstore.connection_pool import Database


class ReplayQueries:
    """Reads replays."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def replay_status(self, org: str, run_id: str, replay_id: str) -> str | None:
        """Whether a replay of a run is `running`, `completed` or `failed`; None for one that is not
        there."""
        row = await self.database.fetch_one(
            "select status from agent.run_replay_view where id = %s and run_id = %s and org = %s",
            [replay_id, run_id, org],
        )
        return row[0] if row else None
