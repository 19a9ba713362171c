"""Drop the chunks that a process left on the bus: it died between the commit of an answer and the
word that its chunks need not be kept any more. Nobody asks for them; without this they would stay
until they are too old."""

from __future__ import annotations

from collections.abc import Sequence

from libs.bus.ports import Bus, Clock
from libs.contracts.agent.stream_chunks import NUMBER_MAX
from libs.contracts.bus_messages import delta_subject
from libs.work.reconciliation import Reconciliation
from services.agent.adapters.run_queries import RunQueries
from services.agent.engine.run_stream import RunStreamPublisher

CHUNKS_OF_RUNS = delta_subject("agent", "run", "token", "*", "*")


class OrphanedChunks(Reconciliation[tuple[str, str]]):
    """The runs, each after its organisation, that have ended and whose chunks the bus keeps."""

    name = "chunks of runs that have ended"

    def __init__(self, bus: Bus, queries: RunQueries, clock: Clock) -> None:
        super().__init__(clock)
        self.bus = bus
        self.queries = queries

    async def find(self, keys: list[str] | None) -> Sequence[tuple[str, str]]:
        """The runs of which chunks are kept and that are not active."""
        subjects = await self.bus.kept_subjects(CHUNKS_OF_RUNS)
        runs = {run_id: org for *_, org, _, run_id in (subject.split(".") for subject in subjects)}
        active = await self.queries.active_runs(list(runs.values()), list(runs)) if runs else []
        return [(runs[run_id], run_id) for run_id in runs.keys() - set(active)]

    async def mend(self, item: tuple[str, str]) -> bool:
        """Have the bus forget the chunks of one run."""
        org, run_id = item
        await RunStreamPublisher(self.bus, org).replace_chunks(run_id, NUMBER_MAX)
        return True
