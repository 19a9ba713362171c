"""One example of each message about schedules and their firings."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from libs.contracts.bus_messages import Command, Event
from libs.contracts.letta.enums import MessageRole
from libs.contracts.letta.message_requests import MessageCreate
from libs.contracts.scheduler.firings import (
    FiringDeadLettered,
    FiringEnded,
    FiringFailed,
    FiringRetried,
    FiringStarted,
    firing_of_slot,
)
from libs.contracts.scheduler.schedule_config import MessageAction, ScheduleConfig
from libs.contracts.scheduler.schedules import (
    CreateSchedule,
    DeleteSchedule,
    FireSchedule,
    ListNextSlots,
    PauseSchedule,
    ResumeSchedule,
    ScheduleCompleted,
    ScheduleCreated,
    ScheduleDeleted,
    SchedulePaused,
    ScheduleResumed,
    ScheduleUpdated,
    SlotsSkipped,
    UpdateSchedule,
)

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
AGENT = "agent-11111111-1111-4111-8111-111111111111"
SCHEDULE = "schedule-29292929-2929-4929-8929-292929292929"
SLOT = datetime(2026, 1, 2, 3, 5, tzinfo=UTC)
NEXT = SLOT + timedelta(minutes=5)
FIRING = firing_of_slot(SCHEDULE, SLOT)
CONFIG = ScheduleConfig(
    id=SCHEDULE,
    agent_id=AGENT,
    created_at=AT,
    name="Stand-up",
    schedule_type="recurring",
    cron_expression="*/5 * * * *",
    timezone="Europe/Berlin",
    action=MessageAction(
        messages=[MessageCreate(role=MessageRole.user, content="What is new?")], max_steps=7
    ),
)


def of_schedule(kind: type[Event], **fields: Any) -> Event:
    return kind(originator_id=SCHEDULE, originator_version=1, timestamp=AT, **fields)


def of_firing(kind: type[Event], **fields: Any) -> Event:
    return of_schedule(kind, **{"firing_id": FIRING, **fields})


COMMANDS: list[Command] = [
    CreateSchedule(schedule=CONFIG),
    UpdateSchedule(schedule_id=SCHEDULE, changes={"name": "Stand-up at noon"}),
    PauseSchedule(schedule_id=SCHEDULE),
    ResumeSchedule(schedule_id=SCHEDULE),
    FireSchedule(schedule_id=SCHEDULE, firing_id=FIRING),
    ListNextSlots(schedule_id=SCHEDULE, count=3),
    DeleteSchedule(schedule_id=SCHEDULE),
]
EVENTS: list[Event] = [
    of_schedule(ScheduleCreated, schedule=CONFIG, next_at=SLOT),
    of_schedule(ScheduleUpdated, schedule=CONFIG, next_at=SLOT),
    of_schedule(SchedulePaused),
    of_schedule(ScheduleResumed, next_at=SLOT),
    of_firing(
        FiringStarted,
        agent_id=AGENT,
        slot=SLOT,
        run_id="run-1",
        correlation_id=FIRING,
        next_at=NEXT,
    ),
    of_firing(FiringFailed, attempt=1, error="The model is away", retry_at=NEXT),
    of_firing(FiringRetried, attempt=2, run_id="run-2"),
    of_firing(FiringDeadLettered, attempt=2, error="The model is away"),
    of_firing(FiringEnded, outcome="completed", forgets="firing-old"),
    of_schedule(SlotsSkipped, reason="missed", count=1, first=SLOT, last=SLOT, next_at=NEXT),
    of_schedule(ScheduleCompleted),
    of_schedule(ScheduleDeleted),
]
SUBJECTS: dict[str, str] = {
    **{
        f"{verb}Schedule": f"scheduler.command.schedule.{verb.lower()}.org-1.{SCHEDULE}"
        for verb in ("Create", "Update", "Pause", "Resume", "Fire", "Delete")
    },
    **{
        f"Schedule{verb}": f"scheduler.event.schedule.{verb.lower()}.org-1.{SCHEDULE}"
        for verb in ("Created", "Updated", "Paused", "Resumed", "Completed", "Deleted")
    },
    "ListNextSlots": f"scheduler.command.schedule.list_next.org-1.{SCHEDULE}",
    "SlotsSkipped": f"scheduler.event.slots.skipped.org-1.{SCHEDULE}",
    "FiringStarted": f"scheduler.event.firing.started.org-1.{FIRING}",
    "FiringFailed": f"scheduler.event.firing.failed.org-1.{FIRING}",
    "FiringRetried": f"scheduler.event.firing.retried.org-1.{FIRING}",
    "FiringEnded": f"scheduler.event.firing.ended.org-1.{FIRING}",
    "FiringDeadLettered": f"scheduler.event.firing.dead_lettered.org-1.{FIRING}",
}
