"""Queries about replays of runs, from the view that the agent service publishes."""

from __future__ import annotations

from libs.eventstore.connection_pool import DatabaseQueries


class ReplayQueries(DatabaseQueries):
    """Reads replays."""

    async def replay_status(self, org: str, run_id: str, replay_id: str) -> str | None:
        """Whether a replay of a run is `running`, `completed` or `failed`; None for one that is not
        there."""
        return await self.value(
            "select status from agent.run_replay_view where id = %s and run_id = %s and org = %s",
            [replay_id, run_id, org],
        )
