"""The language of the scheduler service about schedules; what one does about a slot is in
`firings`."""

from __future__ import annotations

from datetime import datetime
from operator import not_
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from libs.contracts.bus_messages import Command, Event, JsonObject
from libs.contracts.scheduler.schedule_config import ScheduleConfig

SERVICE = "scheduler"

NEXT_SLOTS_DEFAULT, NEXT_SLOTS_MAX = 10, 100

# Why slots were not fired: the service was away, an earlier firing still waits in line, or as many
# firings as may have not ended.
SkipReason = Literal["missed", "merged", "too_many_firings"]


class ScheduleCommand(Command, service=SERVICE):
    """A command about one schedule."""

    schedule_id: str

    @property
    def target(self) -> str:
        """The id of the schedule."""
        return self.schedule_id


class CreateSchedule(Command, service=SERVICE, topic="schedule.create"):
    """Make a schedule of an agent."""

    schedule: ScheduleConfig

    @property
    def target(self) -> str:
        """The id of the schedule."""
        return self.schedule.id


class UpdateSchedule(ScheduleCommand, topic="schedule.update"):
    """Change the given fields of a schedule; its id, agent and creation stay."""

    changes: JsonObject


class PauseSchedule(ScheduleCommand, topic="schedule.pause"):
    """Let no slot fire until the schedule is resumed."""


class ResumeSchedule(ScheduleCommand, topic="schedule.resume"):
    """Let slots fire again, from now on."""


class FireSchedule(ScheduleCommand, topic="schedule.fire"):
    """Fire a schedule now, besides its slots; with a `firing_id` fire that dead letter again.

    Answered with `{"firing_id", "run_id"}`; `run_id` is null where it starts no run of an agent."""

    firing_id: str = Field(default="", exclude_if=not_)


class ListNextSlots(ScheduleCommand, topic="schedule.list_next"):
    """List the next slots of a schedule from now on, also while it is paused.

    Answered with `{"times"}`; it changes nothing."""

    keeps_reply: ClassVar[bool] = False
    count: Annotated[int, Field(ge=1, le=NEXT_SLOTS_MAX)] = NEXT_SLOTS_DEFAULT


class DeleteSchedule(ScheduleCommand, topic="schedule.delete"):
    """Remove a schedule with the history of its firings, while runs that it has started go on."""

    # Whether one that may fire again, or whose firings have not all ended, is left as it is.
    if_over: bool = Field(default=False, exclude_if=not_)


class ScheduleEvent(Event, service=SERVICE):
    """A fact about one schedule."""


class ScheduleCreated(ScheduleEvent, topic="schedule.created"):
    """A schedule exists; `next_at` is its first slot."""

    schedule: ScheduleConfig
    next_at: datetime


class ScheduleUpdated(ScheduleEvent, topic="schedule.updated"):
    """A schedule is as it says now; `next_at` is its next slot, null while it is paused or has
    completed."""

    schedule: ScheduleConfig
    next_at: datetime | None


class SchedulePaused(ScheduleEvent, topic="schedule.paused"):
    """No slot of a schedule fires until it is resumed."""


class ScheduleResumed(ScheduleEvent, topic="schedule.resumed"):
    """Slots of a schedule fire again, from `next_at` on."""

    next_at: datetime


class ScheduleDeleted(ScheduleEvent, topic="schedule.deleted"):
    """A schedule is gone, with the history of its firings."""


class SlotsSkipped(ScheduleEvent, topic="slots.skipped"):
    """So many slots of a schedule, from the first to the last, are not fired.

    `next_at` is the next slot, null if there is none. Where very many were missed, `count` is only
    the least that it may be."""

    reason: SkipReason
    count: int
    first: datetime
    last: datetime
    next_at: datetime | None


class ScheduleCompleted(ScheduleEvent, topic="schedule.completed"):
    """A schedule has no slot any more, and stays with its history until it is deleted."""
