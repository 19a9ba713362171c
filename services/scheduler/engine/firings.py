"""Fire the slots of schedules, each once, and see to what they started until it has ended.

An attempt looks at one schedule. It records what became of the runs that have ended, records the
firings of slots that have come, and starts their runs. It waits for no run: one that ends makes its
schedule due again. Each firing is a story of its own, so it is recorded under a correlation id of
its own, which its runs and their tools share.

Which slots have come is decided by the time of the database (`DueSchedule.now`): the clocks of
processes may differ and jump. A firing is recorded, and its schedule moved on to the next slot, in
one commit under the schedule's lease, before its run is started; a start that gets lost is repeated
under the same id. So a slot is fired once, whatever dies and however many processes look.

What `if_active` means for messages while the agent answers something else: with `queue` the run
waits in line. With `skip` it is not begun, and its firing says so. With `wake` the run ends a pause
that the agent has asked for, and while an earlier firing of the same schedule still waits in line,
its next slots are skipped: the earlier one stands for them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from libs.bus.fair_semaphore import FairSemaphore
from libs.bus.ports import BusUnavailable
from libs.bus.process_ports import ProcessPorts
from libs.contracts.bus_messages import Rejected
from libs.contracts.scheduler.firings import FiringEnd
from libs.eventstore.unit_of_work import UnitOfWork
from libs.work.leased_work import LeasedWork
from libs.work.work_lease import WorkLease
from services.scheduler.adapters.schedule_queries import DueSchedule, ScheduleQueries, Started
from services.scheduler.domain.schedule import OPEN_FIRINGS_MAX, Schedule
from services.scheduler.domain.schedule_state import Firing
from services.scheduler.engine.actions import Actions, Attempt, Done, Outcome

log = logging.getLogger(__name__)

# Schedules that a process sees to at once.
SCHEDULES_AT_ONCE_MAX = 16
SCHEDULES_OF_ORGANISATION_AT_ONCE_MAX = 12
# Slots of one schedule that one attempt fires; with `missed="all"` the next attempt fires more.
SLOTS_PER_ATTEMPT_MAX = 10


@dataclass(slots=True, kw_only=True)
class FiringPorts(ProcessPorts):
    """The ports of firings."""

    queries: ScheduleQueries
    actions: Actions


class Firings(LeasedWork[DueSchedule]):
    """The schedules that this process sees to."""

    name = "schedule"
    drain_seconds_max = 5.0
    ports: FiringPorts

    def __init__(self, ports: FiringPorts) -> None:
        places = FairSemaphore(
            SCHEDULES_AT_ONCE_MAX,
            of_organisation_max=SCHEDULES_OF_ORGANISATION_AT_ONCE_MAX,
            users="schedules",
            thing="place",
        )
        super().__init__(ports, places)

    async def due(self) -> Sequence[DueSchedule]:
        """The schedules of which a slot, a retry or the end of a run has come."""
        return await self.ports.queries.due_schedules(OPEN_FIRINGS_MAX)

    async def attempt(self, lease: WorkLease[DueSchedule]) -> None:
        """Take one schedule as far as it can be taken now."""
        schedule = await lease.unit().load(Schedule, lease.work.id)
        started = await self.find_progress(lease, schedule)
        if schedule.present is not None:
            for firing_id, firing in list(schedule.state.open.items()):
                await self.look_at(lease, firing_id, firing, started.get(firing.run_id))
        await self.fire_slots(lease, waiting_in(schedule, started))

    async def give_up(self, unit: UnitOfWork, work: DueSchedule, reason: str) -> None:
        """Decide that the open firings of a schedule have failed, and pause it."""
        (await unit.load(Schedule, work.id)).give_up(reason, now=work.now)

    async def find_progress(
        self, lease: WorkLease[DueSchedule], schedule: Schedule
    ) -> dict[str, Started]:
        """The states of the runs of the open firings."""
        run_ids = [firing.run_id for firing in schedule.state.open.values()]
        return await self.ports.queries.find_progress(lease.work.org, run_ids) if run_ids else {}

    async def look_at(
        self, lease: WorkLease[DueSchedule], firing_id: str, firing: Firing, found: Started | None
    ) -> None:
        """Take an open firing further: start or retry its run, or record how that has ended."""
        if firing.retry_at is not None:
            if firing.retry_at <= lease.work.now:
                await self.record(
                    lease, firing, lambda schedule: schedule.retry(firing_id, now=lease.work.now)
                )
                await self.start(lease, firing_id)
            return
        match found.progress if found else "missing":
            case "missing":
                await self.record(
                    lease,
                    firing,
                    lambda schedule: schedule.follow_action(firing_id, now=lease.work.now),
                )
                await self.start(lease, firing_id)
            case "completed" | "failed" | "cancelled" | "gone":
                assert found is not None
                await self.conclude(lease, firing_id, firing, found)

    async def conclude(
        self, lease: WorkLease[DueSchedule], firing_id: str, firing: Firing, found: Started
    ) -> None:
        """Record that what a firing started has ended."""
        now, run_id = lease.work.now, firing.run_id

        def decide(schedule: Schedule) -> None:
            match found.progress:
                case "completed":
                    schedule.end(firing_id, run_id, "completed", now=now)
                case "failed":
                    schedule.fail(firing_id, run_id, found.error or "Its run failed", now=now)
                case "cancelled":
                    schedule.end(firing_id, run_id, "cancelled", "Its run was cancelled", now=now)
                case _:
                    schedule.end(firing_id, run_id, "cancelled", "Its run was deleted", now=now)

        await self.record(lease, firing, decide, advances=True)

    async def fire_slots(self, lease: WorkLease[DueSchedule], waiting: frozenset[str]) -> None:
        """Fire the slots that have come, one after the other. The last commit gives the lease back,
        and so do those of attempts at schedules that are gone."""
        for _ in range(SLOTS_PER_ATTEMPT_MAX):
            firing_id = await self.record(
                lease,
                None,
                lambda schedule: schedule.fire_due(now=lease.work.now, waiting=waiting),
                release=lambda fired: fired is None,
            )
            if firing_id is None:
                return
            await self.start(lease, firing_id)

    async def start(self, lease: WorkLease[DueSchedule], firing_id: str) -> None:
        """Start what a firing is to start; a failure is recorded. If the bus is away, a later sweep
        starts it."""
        schedule = await lease.unit().load(Schedule, lease.work.id)
        config, firing = schedule.present, schedule.state.open.get(firing_id)
        if config is None or firing is None or firing.retry_at is not None:
            return
        context = replace(lease.context, correlation_id=firing.correlation_id)
        try:
            outcome = await self.ports.actions.start(Attempt(config, firing_id, firing, context))
        except BusUnavailable as outage:
            log.warning("the firing %s is started later: %s", firing_id, outage)
            return
        if outcome is not None:
            await self.record_outcome(lease, firing_id, firing, outcome)

    async def record_outcome(
        self, lease: WorkLease[DueSchedule], firing_id: str, firing: Firing, outcome: Outcome
    ) -> None:
        """Record that an attempt was over as soon as it began."""
        now, run_id = lease.work.now, firing.run_id

        def decide(schedule: Schedule) -> None:
            match outcome:
                case Done():
                    end: FiringEnd = "skipped" if outcome.is_skipped else "completed"
                    schedule.end(firing_id, run_id, end, outcome.reason, now=now)
                case Rejected() if outcome.next_try in ("again", "later"):
                    schedule.postpone(firing_id, run_id, outcome.reason, now=now)
                case Rejected():
                    may_retry = outcome.next_try == "anew"
                    schedule.fail(firing_id, run_id, outcome.reason, may_retry=may_retry, now=now)

        await self.record(lease, firing, decide, advances=True)

    async def record[T](
        self,
        lease: WorkLease[DueSchedule],
        firing: Firing | None,
        decide: Callable[[Schedule], T],
        *,
        release: Callable[[T], bool] | bool = False,
        advances: bool = False,
    ) -> T:
        """Commit a decision about the schedule, as part of the story of a firing."""

        async def load_and_decide(unit: UnitOfWork) -> T:
            schedule = await unit.load(Schedule, lease.work.id)
            before = set(schedule.state.open)
            value = decide(schedule)
            fresh = [schedule.state.open[key] for key in schedule.state.open if key not in before]
            story = firing or (fresh[0] if fresh else None)
            if story is not None:
                unit.context = replace(unit.context, correlation_id=story.correlation_id)
            return value

        return await lease.record(load_and_decide, release=release, advances=advances)


def waiting_in(schedule: Schedule, started: dict[str, Started]) -> frozenset[str]:
    """The open firings of a schedule whose runs have not begun: they wait in line, or are not
    accepted yet."""
    return frozenset(
        firing_id
        for firing_id, firing in schedule.state.open.items()
        if started.get(firing.run_id, Started("missing")).progress in ("waiting", "missing")
    )
