"""How many agents there are, as operators see it."""

from __future__ import annotations

from collections.abc import Callable

from libs.bus.ports import Clock
from libs.eventstore.connection_pool import Database
from libs.telemetry import metrics

AGENTS_COUNTED_EVERY_SECONDS = 60.0


class AgentGauge:
    """Counts the agents now and then, in the one process that `counts` says it is."""

    def __init__(self, database: Database, clock: Clock, counts: Callable[[], bool]) -> None:
        self.database = database
        self.clock = clock
        self.counts = counts
        self.counted_at = float("-inf")

    async def look(self) -> None:
        """Count, unless that was done a moment ago."""
        if not self.counts():
            self.counted_at = float("-inf")
            metrics.AGENTS.clear()
        elif self.clock.monotonic() - self.counted_at > AGENTS_COUNTED_EVERY_SECONDS:
            self.counted_at = self.clock.monotonic()
            row = await self.database.fetch_one("select count(*) from agent.agents")
            assert row is not None
            metrics.AGENTS.labels("agent").set(row[0])
