"""Drop the chunks that a process left on the bus: it died between the commit of an answer and the
word that its chunks need not be kept any more. Nobody asks for them; without this they would stay
until they are too old."""

from __future__ import annotations

import math

from libs.bus.ports import Bus, Clock
from libs.contracts.agent.stream_chunks import NUMBER_MAX
from libs.contracts.bus_messages import delta_subject
from services.agent.adapters.run_queries import RunQueries
from services.agent.engine.run_stream import RunStreamPublisher

LOOK_SECONDS = 60.0
CHUNKS_OF_RUNS = delta_subject("agent", "run", "token", "*", "*")


class OrphanedChunks:
    """Looks when the process starts, for it may be the one that died, and now and then."""

    def __init__(self, bus: Bus, queries: RunQueries, clock: Clock) -> None:
        self.bus = bus
        self.queries = queries
        self.clock = clock
        self.due = -math.inf

    async def sweep(self) -> None:
        """Have the bus forget the chunks of runs that have ended."""
        if self.clock.monotonic() < self.due:
            return
        self.due = self.clock.monotonic() + LOOK_SECONDS
        subjects = await self.bus.kept_subjects(CHUNKS_OF_RUNS)
        runs = {run_id: org for *_, org, _, run_id in (one.split(".") for one in subjects)}
        active = await self.queries.active_runs(list(runs.values()), list(runs)) if runs else []
        for run_id in runs.keys() - set(active):
            await RunStreamPublisher(self.bus, runs[run_id]).replace_chunks(run_id, NUMBER_MAX)
