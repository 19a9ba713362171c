"""When a cron expression is due: pure arithmetic of time."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger


def next_slots(cron_expression: str, timezone: str, after: datetime, count: int) -> list[datetime]:
    """The next slots after a moment, in UTC and in order; fewer than `count` where the expression
    has no more. Raises ValueError for an expression or a zone that is none."""
    trigger = CronTrigger.from_crontab(cron_expression, timezone=ZoneInfo(timezone))
    slots: list[datetime] = []
    last = after.astimezone(ZoneInfo(timezone))
    while len(slots) < count:
        found = trigger.get_next_fire_time(last, last)
        if found is None:
            break
        last = found
        slots.append(found.astimezone(UTC))
    return slots
