"""The language of the scheduler service about firings: what a schedule does about one slot, or
because a client asked for it. Firings are part of their schedule's stream."""

from __future__ import annotations

from datetime import datetime
from operator import not_
from typing import Literal

from pydantic import Field

from libs.contracts.bus_messages import is_none
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.scheduler.schedules import ScheduleEvent

# A firing that is skipped found the agent busy.
FiringEnd = Literal["completed", "cancelled", "skipped"]
# The rest of what the status of a firing may be.
FiringStatus = Literal["running", "retrying", "completed", "cancelled", "skipped", "dead_letter"]


def slot_key(slot: datetime) -> str:
    """A slot, which is in UTC, as part of an id."""
    return slot.isoformat(timespec="milliseconds")


def firing_of_slot(schedule_id: str, slot: datetime) -> str:
    """The id of the firing of a slot: there is one for each."""
    return derived_id("firing", schedule_id, slot_key(slot))


class FiringEvent(ScheduleEvent):
    """A fact about one firing of a schedule."""

    firing_id: str

    @property
    def about(self) -> str:
        """The id of the firing, which stands last in the subject."""
        return self.firing_id


class FiringStarted(FiringEvent, topic="firing.started"):
    """A schedule fires, for a slot or `by_hand`, and is to start this run.

    `slot` is the moment at which it was fired by hand. `next_at` is the next slot of the schedule,
    null if there is none, or while it is paused.
    `correlation_id` is that of the story which the firing begins or belongs to."""

    agent_id: str
    slot: datetime
    run_id: str
    correlation_id: str
    by_hand: bool = Field(default=False, exclude_if=not_)
    next_at: datetime | None = Field(default=None, exclude_if=is_none)


class FiringFailed(FiringEvent, topic="firing.failed"):
    """An attempt at a firing failed; another one follows at `retry_at`.

    Where the attempt could not
    even begin because there was no room for it (`postponed`), it counts as none."""

    attempt: int
    error: str
    retry_at: datetime
    postponed: bool = Field(default=False, exclude_if=not_)


class FiringRetried(FiringEvent, topic="firing.retried"):
    """A firing is attempted again, and is to start this run."""

    attempt: int
    run_id: str


class FiringEnded(FiringEvent, topic="firing.ended"):
    """A firing is over, as its run has ended, or because it found the agent busy.

    `forgets` is the
    oldest firing that the history keeps no more."""

    outcome: FiringEnd
    reason: str = Field(default="", exclude_if=not_)
    forgets: str = Field(default="", exclude_if=not_)


class FiringDeadLettered(FiringEvent, topic="firing.dead_lettered"):
    """All attempts at a firing failed: it is not retried unless a client fires it again."""

    attempt: int
    error: str
    forgets: str = Field(default="", exclude_if=not_)
