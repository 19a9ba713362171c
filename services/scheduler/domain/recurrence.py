"""When a cron expression is due: pure arithmetic of time.

An expression is about clocks on the wall of its zone, of which APScheduler's triggers do the
arithmetic as if that zone knew no summer time. What a time on the wall is in UTC, `zoneinfo` says:

* A time that comes twice, as clocks go back, is due once, the first time; where the expression is
  due in every hour, or several times in an hour, it is due both times: real time goes on.
* A time that does not come, as clocks go forward, is due at the first moment after the gap, once
  for all that the gap holds. Where the expression is due in every hour, no hour is missing, and
  so nothing is made up for.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from heapq import heappop, heappush
from itertools import islice
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger

from libs.contracts.scheduler.cron_expressions import CronExpression, parse_cron
from libs.contracts.wall_times import end_of_gap, moments_of, offset_of, zone_named

# Datetimes end a year later.
YEAR_MAX = 9_998
ONE_DAY, ONE_SECOND = timedelta(days=1), timedelta(seconds=1)
APSCHEDULER_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
EVERY_DAY = frozenset(range(1, 32))
EVERY_WEEKDAY = frozenset(range(7))


def next_slots(cron_expression: str, timezone: str, after: datetime, count: int) -> list[datetime]:
    """The next slots after a moment, in UTC and in order; fewer than `count` where the expression
    has no more. Raises ValueError for an expression or a zone that is none."""
    cron, zone = parse_cron(cron_expression), zone_named(timezone)
    return list(islice(slots_after(cron, zone, after.astimezone(UTC)), count))


def slots_after(cron: CronExpression, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """All slots after a moment, in order. Second passes wait until the first ones have come so far:
    they are those of later times on the wall."""
    takes_both = cron.is_hourly or cron.recurs_within_hours
    offsets = [
        offset_of((after + shift).astimezone(zone)) for shift in (-ONE_DAY, 0 * ONE_DAY, ONE_DAY)
    ]
    last, second_passes = after, list[datetime]()
    for wall in wall_times(cron, (after + min(offsets)).replace(tzinfo=None)):
        first, second = moments_of(wall, zone)
        if first is None:
            if cron.is_hourly:
                continue
            first = end_of_gap(wall, zone)
        while second_passes and second_passes[0] < first:
            passed = heappop(second_passes)
            if passed > last:
                last = passed
                yield passed
        if second is not None and takes_both:
            heappush(second_passes, second)
        if first > last:
            last = first
            yield first


def wall_times(cron: CronExpression, since: datetime) -> Iterator[datetime]:
    """The times on the wall from one on, in order, without a zone."""
    triggers, wall = triggers_of(cron), since.replace(tzinfo=UTC)
    while wall.year < YEAR_MAX:
        found = [trigger.get_next_fire_time(None, wall) for trigger in triggers]
        wall = min(moment for moment in found if moment is not None)
        yield wall.replace(tzinfo=None)
        wall += ONE_SECOND


@lru_cache(maxsize=256)
def triggers_of(cron: CronExpression) -> tuple[CronTrigger, ...]:
    """The triggers whose times together are those of an expression: theirs match a day where both
    of its fields do."""
    if cron.is_either_day:
        return trigger_of(cron, cron.days, EVERY_WEEKDAY), trigger_of(
            cron, EVERY_DAY, cron.weekdays
        )
    return (trigger_of(cron, cron.days, cron.weekdays),)


def trigger_of(cron: CronExpression, days: frozenset[int], weekdays: frozenset[int]) -> CronTrigger:
    """A trigger of APScheduler, which counts days of the week from Monday: so they are named."""
    return CronTrigger(
        minute=trigger_field(cron.minutes, 60),
        hour=trigger_field(cron.hours, 24),
        day=trigger_field(days, len(EVERY_DAY)),
        month=trigger_field(cron.months, 12),
        day_of_week=",".join(APSCHEDULER_DAYS[day] for day in sorted(weekdays))
        if weekdays != EVERY_WEEKDAY
        else "*",
        timezone=UTC,
    )


def trigger_field(values: frozenset[int], all_values: int) -> str:
    """A field of a trigger."""
    return "*" if len(values) == all_values else ",".join(map(str, sorted(values)))
