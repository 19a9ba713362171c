"""When a schedule of a file is due."""

from __future__ import annotations

import re
from datetime import datetime

from libs.agent_toml.schedule_tables import Schedule

EVERY = re.compile(r"([1-9][0-9]{0,3})\s*(m|min|minutes?|h|hours?|d|days?)")
EVERY_EXAMPLES = "'15m', '6h' or '1d'"
MINUTES_OF_HOUR, HOURS_OF_DAY = 60, 24


def cron_of(every: str) -> str:
    """The cron expression of an interval. Raises ValueError with a sentence."""
    match = EVERY.fullmatch(every.strip().lower())
    if match is None:
        raise ValueError(f"'{every}' is no interval: write {EVERY_EXAMPLES}")
    count, unit = int(match[1]), match[2][0]
    if unit == "m" and count % MINUTES_OF_HOUR == 0:
        count, unit = count // MINUTES_OF_HOUR, "h"
    if unit == "h" and count % HOURS_OF_DAY == 0:
        count, unit = count // HOURS_OF_DAY, "d"
    if unit == "d":
        if count != 1:
            raise ValueError(f"'{every}' is more than a day: write it as `cron`")
        return "0 0 * * *"
    whole = MINUTES_OF_HOUR if unit == "m" else HOURS_OF_DAY
    if whole % count:
        words = "an hour" if unit == "m" else "a day"
        raise ValueError(f"'{every}' does not divide {words} evenly: write it as `cron`")
    step = "*" if count == 1 else f"*/{count}"
    return f"{step} * * * *" if unit == "m" else f"0 {step} * * *"


def moment_of(schedule: Schedule) -> datetime | None:
    """The time of a schedule that is due once. Raises ValueError."""
    if schedule.at is None or isinstance(schedule.at, datetime):
        return schedule.at
    try:
        return datetime.fromisoformat(schedule.at)
    except ValueError:
        raise ValueError(
            f"'{schedule.at}' is no time: write one such as 2030-01-31T09:00:00+01:00"
        ) from None
