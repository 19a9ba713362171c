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


class ScheduleCommand(Command):
    """A command about one schedule."""

    service: ClassVar[str] = SERVICE
    schedule_id: str

    @property
    def target(self) -> str:
        """The id of the schedule."""
        return self.schedule_id


class CreateSchedule(Command):
    """Make a schedule of an agent."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "schedule.create"
    schedule: ScheduleConfig

    @property
    def target(self) -> str:
        """The id of the schedule."""
        return self.schedule.id


class UpdateSchedule(ScheduleCommand):
    """Change the given fields of a schedule; its id, agent and creation stay."""

    topic: ClassVar[str] = "schedule.update"
    changes: JsonObject


class PauseSchedule(ScheduleCommand):
    """Let no slot fire until the schedule is resumed."""

    topic: ClassVar[str] = "schedule.pause"


class ResumeSchedule(ScheduleCommand):
    """Let slots fire again, from now on."""

    topic: ClassVar[str] = "schedule.resume"


class FireSchedule(ScheduleCommand):
    """Fire a schedule now, besides its slots; with a `firing_id` fire that dead letter again.

    Answered with `{"firing_id", "run_id"}`; `run_id` is null where it starts no run of an agent."""

    topic: ClassVar[str] = "schedule.fire"
    firing_id: str = Field(default="", exclude_if=not_)


class ListNextSlots(ScheduleCommand):
    """List the next slots of a schedule from now on, also while it is paused.

    Answered with `{"times"}`; it changes nothing."""

    topic: ClassVar[str] = "schedule.list_next"
    keeps_reply: ClassVar[bool] = False
    count: Annotated[int, Field(ge=1, le=NEXT_SLOTS_MAX)] = NEXT_SLOTS_DEFAULT


class DeleteSchedule(ScheduleCommand):
    """Remove a schedule with the history of its firings, while runs that it has started go on."""

    topic: ClassVar[str] = "schedule.delete"
    # Whether one that may fire again, or whose firings have not all ended, is left as it is.
    if_over: bool = Field(default=False, exclude_if=not_)


class ScheduleEvent(Event):
    """A fact about one schedule."""

    service: ClassVar[str] = SERVICE


class ScheduleCreated(ScheduleEvent):
    """A schedule exists; `next_at` is its first slot."""

    topic: ClassVar[str] = "schedule.created"
    schedule: ScheduleConfig
    next_at: datetime


class ScheduleUpdated(ScheduleEvent):
    """A schedule is as it says now; `next_at` is its next slot, null while it is paused or has
    completed."""

    topic: ClassVar[str] = "schedule.updated"
    schedule: ScheduleConfig
    next_at: datetime | None


class SchedulePaused(ScheduleEvent):
    """No slot of a schedule fires until it is resumed."""

    topic: ClassVar[str] = "schedule.paused"


class ScheduleResumed(ScheduleEvent):
    """Slots of a schedule fire again, from `next_at` on."""

    topic: ClassVar[str] = "schedule.resumed"
    next_at: datetime


class ScheduleDeleted(ScheduleEvent):
    """A schedule is gone, with the history of its firings."""

    topic: ClassVar[str] = "schedule.deleted"


class SlotsSkipped(ScheduleEvent):
    """So many slots of a schedule, from the first to the last, are not fired.

    `next_at` is the next slot, null if there is none. Where very many were missed, `count` is only
    the least that it may be."""

    topic: ClassVar[str] = "slots.skipped"
    reason: SkipReason
    count: int
    first: datetime
    last: datetime
    next_at: datetime | None


class ScheduleCompleted(ScheduleEvent):
    """A schedule has no slot any more, and stays with its history until it is deleted."""

    topic: ClassVar[str] = "schedule.completed"
