"""Schedules that go by themselves: with their agent, or because many newer ones are over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from libs.bus.ports import Bus, Clock, Ids
from libs.contracts.scheduler.schedule_config import COMPLETED_SCHEDULES_KEPT
from libs.contracts.scheduler.schedules import DeleteSchedule
from libs.work.reconciliation import Reconciliation, send_correction
from services.scheduler.adapters.schedule_queries import ScheduleQueries


@dataclass(frozen=True, slots=True)
class AbandonedSchedule:
    """A schedule that nobody needs any more."""

    schedule_id: str
    org: str


class ScheduleCleanup(Reconciliation[AbandonedSchedule]):
    """Deletes the schedules of agents that were deleted."""

    name = "schedules of agents that are gone"
    batch_max = 64

    def __init__(self, queries: ScheduleQueries, bus: Bus, clock: Clock, ids: Ids) -> None:
        super().__init__(clock)
        self.queries = queries
        self.bus = bus
        self.ids = ids

    async def find(self, keys: list[str] | None) -> Sequence[AbandonedSchedule]:
        """The schedules of agents that were deleted."""
        found = await self.queries.abandoned_schedules(int(self.batch_max), keys)
        return [AbandonedSchedule(*each) for each in found]

    async def mend(self, item: AbandonedSchedule) -> bool:
        """Delete one schedule; several processes may want that."""
        command = DeleteSchedule(schedule_id=item.schedule_id)
        return await send_correction(self.bus, self.ids, command, item.org)


class OutdatedSchedules(ScheduleCleanup):
    """Deletes the oldest schedules that are over where an agent has many: those that are kept show
    what became of them."""

    name = "schedules that are over"

    async def find(self, keys: list[str] | None) -> Sequence[AbandonedSchedule]:
        """The schedules that are over, beyond so many of an agent."""
        limit = int(self.batch_max)
        found = await self.queries.outdated_schedules(COMPLETED_SCHEDULES_KEPT, limit, keys)
        return [AbandonedSchedule(*each) for each in found]

    async def mend(self, item: AbandonedSchedule) -> bool:
        """Delete one schedule, unless it is due again meanwhile."""
        command = DeleteSchedule(schedule_id=item.schedule_id, if_over=True)
        return await send_correction(self.bus, self.ids, command, item.org)
