"""Which slots of a schedule are fired, and which are skipped, when it is looked at."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from libs.contracts.scheduler.schedule_config import ScheduleConfig
from services.scheduler.domain.recurrence import next_slots

# With `missed="skip"` a slot that is older than this is skipped.
MISSED_GRACE_SECONDS = 60.0
# Of slots that were missed, so many are counted at most.
SKIPPED_COUNTED_MAX = 1_000
# The latest slots before a moment are looked for in a window before it, which doubles until it
# holds them. The first one can hold no more than one slot.
WINDOW_SECONDS_MIN = 60.0
SLOTS_PER_PAGE = 64


@dataclass(frozen=True, slots=True)
class Skipped:
    """Slots that are not fired; where there are very many, `count` is the least."""

    count: int
    first: datetime
    last: datetime


@dataclass(frozen=True, slots=True)
class DueSlots:
    """The slots that are fired, in order; those before them that are skipped; and the next slot
    after all of them, None if there is none."""

    fired: list[datetime]
    skipped: Skipped | None
    next_at: datetime | None


def first_slot(config: ScheduleConfig, after: datetime) -> datetime | None:
    """The first slot after a moment. Raises ValueError for an expression or a zone that is none."""
    if config.schedule_type == "one_time":
        moment = config.scheduled_at
        return moment if moment is not None and moment > after else None
    found = following_slots(config, after, 1)
    return found[0] if found else None


def select_slots(config: ScheduleConfig, next_at: datetime, now: datetime) -> DueSlots:
    """Decide about the slots from `next_at`, which has come, to now."""
    wanted = config.missed_slots_max if config.missed == "all" else 1
    latest = latest_slots(config, next_at, now, wanted)
    following = first_slot(config, now)
    grace = now - timedelta(seconds=MISSED_GRACE_SECONDS)
    fired = [slot for slot in latest if config.missed != "skip" or slot >= grace]
    before = fired[0] if fired else None
    return DueSlots(fired, skipped_before(config, next_at, latest[-1], before), following)


def latest_slots(
    config: ScheduleConfig, next_at: datetime, now: datetime, count: int
) -> list[datetime]:
    """The latest slots from `next_at` to now, in order; at least one, at most `count`."""
    if config.schedule_type == "one_time":
        return [next_at]
    window = timedelta(seconds=WINDOW_SECONDS_MIN)
    while True:
        found = slots_between(config, max(now - window, next_at), next_at, now)
        if len(found) >= count or now - window <= next_at:
            return found[-count:] or [next_at]
        window *= 2


def slots_between(
    config: ScheduleConfig, since: datetime, next_at: datetime, now: datetime
) -> list[datetime]:
    """The slots after a moment, up to now; with `next_at`, where it is that moment."""
    slots = [next_at] if since == next_at else []
    last = since
    while True:
        page = following_slots(config, last, SLOTS_PER_PAGE)
        slots += [slot for slot in page if slot <= now]
        if len(page) < SLOTS_PER_PAGE or page[-1] > now:
            return slots
        last = page[-1]


def following_slots(config: ScheduleConfig, after: datetime, count: int) -> list[datetime]:
    """The next slots of a recurring schedule after a moment."""
    return next_slots(config.cron_expression or "", config.timezone, after, count)


def skipped_before(
    config: ScheduleConfig, next_at: datetime, last: datetime, fired: datetime | None
) -> Skipped | None:
    """The slots from `next_at` on that are not fired: those before the first that is, or all."""
    if fired == next_at:
        return None
    until = last if fired is None else fired - timedelta(microseconds=1)
    end = latest_slots(config, next_at, until, 1)[-1]
    count, slot = 1, next_at
    while slot < end and count < SKIPPED_COUNTED_MAX:
        page = following_slots(config, slot, SLOTS_PER_PAGE)
        passed = [later for later in page if later <= end]
        count, slot = count + len(passed), passed[-1]
    return Skipped(min(count, SKIPPED_COUNTED_MAX), next_at, end)
