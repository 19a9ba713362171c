"""State of a schedule, and its transition for each event."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel

from libs.contracts.bus_messages import Event
from libs.contracts.scheduler.firings import (
    FiringDeadLettered,
    FiringEnded,
    FiringEvent,
    FiringFailed,
    FiringRetried,
    FiringStarted,
)
from libs.contracts.scheduler.schedule_config import ScheduleConfig
from libs.contracts.scheduler.schedules import (
    ScheduleCompleted,
    ScheduleCreated,
    ScheduleDeleted,
    SchedulePaused,
    ScheduleResumed,
    ScheduleUpdated,
    SlotsSkipped,
)


class Firing(BaseModel):
    """A firing that has not ended, or that is a dead letter. While `retry_at` is set, no attempt is
    under way; `failures` are counted since a client fired it, at `fired_at` as since its slot,
    `postponements` since the last attempt."""

    slot: datetime
    fired_at: datetime
    run_id: str
    correlation_id: str
    attempt: int = 1
    failures: int = 0
    postponements: int = 0
    retry_at: datetime | None = None
    is_postponed: bool = False


class ScheduleState(BaseModel):
    """The state of a schedule. `last_slot` is the latest that was fired or skipped; `kept` are the
    firings that have ended and that the history still has, the oldest first."""

    config: ScheduleConfig | None = None
    paused: bool = False
    completed: bool = False
    gone: bool = False
    next_at: datetime | None = None
    last_slot: datetime | None = None
    open: dict[str, Firing] = {}
    dead: dict[str, Firing] = {}
    kept: list[str] = []


def evolve(state: ScheduleState, event: Event) -> None:
    """Change the state by one event."""
    match event:
        case ScheduleCreated():
            state.config, state.next_at = event.schedule, event.next_at
        case ScheduleUpdated():
            state.config, state.next_at = event.schedule, event.next_at
            state.completed = state.completed and event.next_at is None
        case SchedulePaused():
            state.paused, state.next_at = True, None
        case ScheduleResumed():
            state.paused, state.next_at = False, event.next_at
        case ScheduleCompleted():
            state.completed, state.paused, state.next_at = True, False, None
        case ScheduleDeleted():
            state.gone, state.next_at = True, None
        case SlotsSkipped():
            state.last_slot, state.next_at = event.last, event.next_at
        case FiringEvent():
            evolve_firing(state, event)


def evolve_firing(state: ScheduleState, event: FiringEvent) -> None:
    """Change what is known of firings by one event."""
    match event:
        case FiringStarted():
            state.open[event.firing_id] = Firing(
                slot=event.slot,
                fired_at=event.timestamp,
                run_id=event.run_id,
                correlation_id=event.correlation_id,
            )
            state.next_at = event.next_at
            if not event.by_hand:
                state.last_slot = event.slot
        case FiringFailed():
            firing = state.open[event.firing_id]
            firing.retry_at, firing.is_postponed = event.retry_at, event.postponed
            if event.postponed:
                firing.postponements += 1
            else:
                firing.failures, firing.postponements = firing.failures + 1, 0
        case FiringRetried():
            retry(state, event)
        case FiringDeadLettered():
            state.dead[event.firing_id] = state.open.pop(event.firing_id)
            keep(state, event)
        case FiringEnded():
            state.open.pop(event.firing_id)
            keep(state, event)


def retry(state: ScheduleState, event: FiringRetried) -> None:
    """A firing has another attempt; a dead letter is open again."""
    dead = state.dead.pop(event.firing_id, None)
    if dead is not None:
        state.kept.remove(event.firing_id)
        dead.failures = dead.postponements = 0
        dead.fired_at = event.timestamp
        state.open[event.firing_id] = dead
    firing = state.open[event.firing_id]
    firing.attempt, firing.run_id = event.attempt, event.run_id
    firing.retry_at, firing.is_postponed = None, False


def keep(state: ScheduleState, event: FiringEnded | FiringDeadLettered) -> None:
    """The history has one more firing that has ended, and forgets the oldest."""
    state.kept.append(event.firing_id)
    if event.forgets:
        state.kept.remove(event.forgets)
        state.dead.pop(event.forgets, None)
