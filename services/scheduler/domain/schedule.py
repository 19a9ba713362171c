"""A schedule: when its slots are due, and what became of each.

All times are those of the database: `now` is passed in, as a statement there has read it, so that a
process whose clock runs ahead fires no slot early. A slot is fired once, because the event that
fires it also moves the schedule on to the next slot, and because the ids of the firing and of its
run follow from the slot.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import CONFLICT, NOT_FOUND, Event, JsonObject, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.scheduler.firings import (
    FiringDeadLettered,
    FiringEnd,
    FiringEnded,
    FiringFailed,
    FiringRetried,
    FiringStarted,
    firing_of_slot,
)
from libs.contracts.scheduler.schedule_config import ScheduleConfig
from libs.contracts.scheduler.schedules import (
    ScheduleCompleted,
    ScheduleCreated,
    ScheduleDeleted,
    SchedulePaused,
    ScheduleResumed,
    ScheduleUpdated,
    SkipReason,
    SlotsSkipped,
)
from services.scheduler.domain.attempts import (
    POSTPONEMENTS_MAX,
    retry_delay,
    run_of_attempt,
)
from services.scheduler.domain.schedule_rules import (
    WHEN_FIELDS,
    missing,
    refuse_config,
    refuse_fields,
    refuse_size,
    with_changes,
)
from services.scheduler.domain.schedule_state import Firing, ScheduleState, evolve
from services.scheduler.domain.slot_selection import (
    first_slot,
    following_slots,
    select_slots,
)

# Firings of one schedule that have not ended. Beyond it slots are skipped, or with `missed="all"`
# wait.
OPEN_FIRINGS_MAX = 100
# The newest firings that have ended and that the history keeps.
FIRINGS_KEPT_MAX = 100


class Schedule(Aggregate[ScheduleState]):
    """One schedule of an agent."""

    State = ScheduleState

    @property
    def deleted(self) -> bool:
        """Whether a client, or the end of its agent, has deleted it."""
        return self.state.gone

    @property
    def present(self) -> ScheduleConfig | None:
        """The schedule as it is, if there is one."""
        return None if self.state.gone else self.state.config

    # What clients want

    def create(self, config: ScheduleConfig, *, now: datetime) -> Rejected | None:
        """Be due from now on."""
        if self.exists:
            return Rejected(code=CONFLICT, reason=f"Schedule {self.id} exists already")
        refused = refuse_config(config, now)
        if refused:
            return refused
        self.record(ScheduleCreated, at=now, schedule=config, next_at=first_slot(config, now))
        return None

    def update(self, changes: JsonObject, *, now: datetime) -> Rejected | None:
        """Be otherwise; a slot that was fired or skipped does not come again."""
        config = self.present
        if config is None:
            return missing(self.id)
        changed = with_changes(config, changes)
        if isinstance(changed, Rejected) or changed == config:
            return changed if isinstance(changed, Rejected) else None
        other_times = any(getattr(changed, name) != getattr(config, name) for name in WHEN_FIELDS)
        refused = (
            refuse_config(changed, now)
            if other_times
            else refuse_fields(changed) or refuse_size(changed)
        )
        if refused:
            return refused
        next_at = first_slot(changed, self.latest(now)) if other_times else self.state.next_at
        if self.state.paused:
            next_at = None
        self.record(ScheduleUpdated, at=now, schedule=changed, next_at=next_at)
        return None

    def pause(self, *, now: datetime) -> Rejected | None:
        """Fire no slot until resumed; safe to repeat."""
        if self.present is None:
            return missing(self.id)
        if self.state.completed:
            return self.refuse_completed()
        if not self.state.paused:
            self.record(SchedulePaused, at=now)
        return None

    def resume(self, *, now: datetime) -> Rejected | None:
        """Fire slots again; safe to repeat. Recurring slots that came meanwhile are not missed:
        nobody wanted them. That of a one-time schedule is, and then `missed` says what follows."""
        config = self.present
        if config is None:
            return missing(self.id)
        if self.state.completed:
            return self.refuse_completed()
        if not self.state.paused:
            return None
        next_at = config.scheduled_at or first_slot(config, self.latest(now))
        if next_at is None:
            self.record(ScheduleCompleted, at=now)
        else:
            self.record(ScheduleResumed, at=now, next_at=next_at)
        return None

    def delete(self, *, if_over: bool = False, now: datetime) -> Rejected | None:
        """Be gone, with the history of its firings; `if_over` only where nothing may follow."""
        if self.present is None:
            return missing(self.id)
        if if_over and (self.state.open or not self.state.completed):
            return Rejected(code=CONFLICT, reason=f"Schedule {self.id} is not over")
        self.record(ScheduleDeleted, at=now)
        return None

    def fire(self, message_id: str, correlation_id: str, *, now: datetime) -> str | Rejected:
        """Fire now, besides the slots; returns the id of the firing, which follows from that of the
        message."""
        config = self.present
        if config is None:
            return missing(self.id)
        if self.is_full:
            reason = f"{OPEN_FIRINGS_MAX} firings of the schedule have not ended: wait for some"
            return Rejected(code=CONFLICT, reason=reason)
        firing_id = derived_id("firing", self.id, message_id)
        if firing_id not in self.state.open:
            self.start(
                config,
                firing_id,
                slot=now,
                correlation_id=correlation_id or firing_id,
                next_at=self.state.next_at,
                by_hand=True,
                now=now,
            )
        return firing_id

    def fire_again(self, firing_id: str, *, now: datetime) -> Rejected | None:
        """Attempt a dead letter again, as often as a new firing."""
        config = self.present
        if config is None:
            return missing(self.id)
        firing = self.state.dead.get(firing_id)
        if firing is not None and not self.is_full:
            self.attempt_again(config, firing_id, firing.attempt + 1, now=now)
            return None
        if firing is not None or firing_id in self.state.open or firing_id in self.state.kept:
            reason = f"{firing_id} is no dead letter: only those are fired again"
            if firing is not None:
                reason = f"{OPEN_FIRINGS_MAX} firings of the schedule have not ended: wait for some"
            return Rejected(code=CONFLICT, reason=reason)
        return Rejected(code=NOT_FOUND, reason=f"Firing with id '{firing_id}' not found")

    # What comes with time

    def fire_due(self, *, now: datetime, waiting: frozenset[str] = frozenset()) -> str | None:
        """Decide about the slots that have come: record which are skipped, and the firing of one.

        Returns its id; None where none is fired now. Call it again until then. `waiting` are the
        open firings whose runs wait in line."""
        config, next_at = self.present, self.state.next_at
        if config is None or self.state.paused or next_at is None or next_at > now:
            return None
        if self.is_full and config.missed == "all":
            return None
        due = select_slots(config, next_at, now)
        if due.skipped:
            first = due.fired[0] if due.fired else due.next_at
            skipped = due.skipped
            self.skip("missed", skipped.first, skipped.last, skipped.count, first, now=now)
        if not due.fired:
            self.complete_without_slot(now=now)
            return None
        following = due.fired[1] if len(due.fired) > 1 else due.next_at
        firing_id = self.fire_slot(config, due.fired[0], following, waiting, now=now)
        self.complete_without_slot(now=now)
        return firing_id

    def fire_slot(
        self,
        config: ScheduleConfig,
        slot: datetime,
        following: datetime | None,
        waiting: frozenset[str],
        *,
        now: datetime,
    ) -> str | None:
        """Record the firing of a slot, or that it is skipped; returns the firing's id."""
        if self.is_full:
            self.skip("too_many_firings", slot, slot, 1, following, now=now)
            return None
        if config.if_active == "wake" and waiting & self.state.open.keys():
            self.skip("merged", slot, slot, 1, following, now=now)
            return None
        firing_id = firing_of_slot(self.id, slot)
        self.start(
            config,
            firing_id,
            slot=slot,
            correlation_id=firing_id,
            next_at=following,
            by_hand=False,
            now=now,
        )
        return firing_id

    def start(
        self,
        config: ScheduleConfig,
        firing_id: str,
        *,
        slot: datetime,
        correlation_id: str,
        next_at: datetime | None,
        by_hand: bool,
        now: datetime,
    ) -> None:
        """Record that a firing begins."""
        self.record(
            FiringStarted,
            at=now,
            firing_id=firing_id,
            agent_id=config.agent_id,
            slot=slot,
            run_id=run_of_attempt(config, firing_id, 1),
            correlation_id=correlation_id,
            by_hand=by_hand,
            next_at=next_at,
        )

    def skip(
        self,
        reason: SkipReason,
        first: datetime,
        last: datetime,
        count: int,
        next_at: datetime | None,
        *,
        now: datetime,
    ) -> None:
        """Record that slots are not fired."""
        self.record(
            SlotsSkipped,
            at=now,
            reason=reason,
            count=count,
            first=first,
            last=last,
            next_at=next_at,
        )

    def complete_without_slot(self, *, now: datetime) -> None:
        """Record that no slot is left, if that is so."""
        if self.state.next_at is None and not self.state.completed:
            self.record(ScheduleCompleted, at=now)

    # What becomes of attempts

    def fail(
        self, firing_id: str, run_id: str, error: str, *, may_retry: bool = True, now: datetime
    ) -> None:
        """Record that the attempt that has this run failed: another one follows later, or, where
        there were as many as may be, none. Safe to repeat."""
        config, firing = self.present, self.under_way(firing_id, run_id)
        if config is None or firing is None:
            return
        if may_retry and firing.failures < config.retries_max:
            self.record(
                FiringFailed,
                at=now,
                firing_id=firing_id,
                attempt=firing.attempt,
                error=error,
                retry_at=now + timedelta(seconds=retry_delay(firing.failures)),
            )
        else:
            self.bury(firing_id, firing, error, now=now)

    def postpone(self, firing_id: str, run_id: str, error: str, *, now: datetime) -> None:
        """Record that there was no room for an attempt. Safe to repeat."""
        firing = self.under_way(firing_id, run_id)
        if firing is None:
            return
        if firing.postponements >= POSTPONEMENTS_MAX:
            self.bury(firing_id, firing, error, now=now)
            return
        self.record(
            FiringFailed,
            at=now,
            firing_id=firing_id,
            attempt=firing.attempt,
            error=error,
            retry_at=now + timedelta(seconds=retry_delay(firing.postponements)),
            postponed=True,
        )

    def bury(self, firing_id: str, firing: Firing, error: str, *, now: datetime) -> None:
        """Record that a firing is a dead letter."""
        self.record(
            FiringDeadLettered,
            at=now,
            firing_id=firing_id,
            attempt=firing.attempt,
            error=error,
            forgets=self.forgotten_next,
        )

    def give_up(self, error: str, *, now: datetime) -> None:
        """Record that the open firings are dead letters, and fire no slot until a client resumes
        the schedule: what is behind this would happen again at each."""
        if self.present is None:
            return
        for firing_id, firing in list(self.state.open.items()):
            self.bury(firing_id, firing, error, now=now)
        if not self.state.paused and not self.state.completed:
            self.record(SchedulePaused, at=now)

    def retry(self, firing_id: str, *, now: datetime) -> None:
        """Record the next attempt at a firing, if its time has come. Safe to repeat."""
        config, firing = self.present, self.state.open.get(firing_id)
        if config and firing and firing.retry_at is not None and firing.retry_at <= now:
            attempt = firing.attempt + (0 if firing.is_postponed else 1)
            self.attempt_again(config, firing_id, attempt, now=now)

    def attempt_again(
        self, config: ScheduleConfig, firing_id: str, attempt: int, *, now: datetime
    ) -> None:
        """Record that another attempt begins."""
        run_id = run_of_attempt(config, firing_id, attempt)
        self.record(FiringRetried, at=now, firing_id=firing_id, attempt=attempt, run_id=run_id)

    def follow_action(self, firing_id: str, *, now: datetime) -> None:
        """Record the attempt anew where it is to start something else than it was made for: the
        action was changed before anything was started. Safe to repeat."""
        config, firing = self.present, self.state.open.get(firing_id)
        if not config or not firing or firing.retry_at is not None:
            return
        if firing.run_id != run_of_attempt(config, firing_id, firing.attempt):
            self.attempt_again(config, firing_id, firing.attempt, now=now)

    def end(
        self, firing_id: str, run_id: str, outcome: FiringEnd, reason: str = "", *, now: datetime
    ) -> None:
        """Record that a firing is over with the attempt that has this run. Safe to repeat."""
        if self.under_way(firing_id, run_id) is not None:
            self.record(
                FiringEnded,
                at=now,
                firing_id=firing_id,
                outcome=outcome,
                reason=reason,
                forgets=self.forgotten_next,
            )

    # What decisions rest on

    def next_slots(self, count: int, *, now: datetime) -> list[datetime] | Rejected:
        """The next slots that were neither fired nor skipped, also of a schedule that is paused."""
        config = self.present
        if config is None:
            return missing(self.id)
        if self.state.completed:
            return []
        if config.schedule_type == "one_time":
            return [config.scheduled_at] if config.scheduled_at else []
        return following_slots(config, self.latest(now), count)

    @property
    def is_full(self) -> bool:
        """Whether as many firings as may be have not ended."""
        return len(self.state.open) >= OPEN_FIRINGS_MAX

    @property
    def forgotten_next(self) -> str:
        """The firing that the history has no room for once one more has ended; empty for none."""
        return self.state.kept[0] if len(self.state.kept) >= FIRINGS_KEPT_MAX else ""

    def under_way(self, firing_id: str, run_id: str) -> Firing | None:
        """The firing whose present attempt has this run."""
        firing = None if self.state.gone else self.state.open.get(firing_id)
        known = firing is not None and firing.run_id == run_id and firing.retry_at is None
        return firing if known else None

    def latest(self, now: datetime) -> datetime:
        """The moment after which a slot is a new one."""
        return max(now, self.state.last_slot or now)

    def refuse_completed(self) -> Rejected:
        """The refusal to pause or resume a schedule without slots."""
        reason = f"Schedule {self.id} has completed: give it another time to be due, or fire it now"
        return Rejected(code=CONFLICT, reason=reason)

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        evolve(self.state, event)
