"""Delete the replays of runs that are gone."""

from __future__ import annotations

from collections.abc import Sequence

from libs.bus.ports import Bus, Clock, Ids
from libs.contracts.agent.conversations import ConversationDeleted
from libs.contracts.agent.run_replays import DeleteRunReplay, RunReplayRequested
from libs.contracts.agent.runs import RunDeleted
from libs.contracts.bus_messages import Event
from libs.work.reconciliation import Reconciliation, send_correction
from libs.work.work_lease import DueWork
from services.agent.adapters.reconciliation_queries import SWEPT_MAX
from services.agent.adapters.replay_queries import ReplayQueries

RUN_LOSING_EVENTS = (ConversationDeleted, RunDeleted, RunReplayRequested)


class DeleteReplays(Reconciliation[DueWork]):
    """Delete the replays of runs that were deleted, with their conversation or alone."""

    name = "replays of runs that are gone"
    batch_max = SWEPT_MAX

    def __init__(self, bus: Bus, queries: ReplayQueries, clock: Clock, ids: Ids) -> None:
        super().__init__(clock)
        self.bus = bus
        self.queries = queries
        self.ids = ids

    def note_commit(self, _event: Event) -> None:
        """Look at all replays: a run may be gone after this event."""
        self.look_at_all()

    async def find(self, keys: list[str] | None) -> Sequence[DueWork]:
        """Replays whose run is gone."""
        return await self.queries.lost_replays()

    async def mend(self, item: DueWork) -> bool:
        """Delete one replay; returns whether that was accepted."""
        command = DeleteRunReplay(replay_id=item.id)
        return await send_correction(self.bus, self.ids, command, item.org)
