"""Cron expressions of five fields: what they say, and what is wrong with one that says nothing.

The fields are minute, hour, day of the month, month and day of the week, as classic cron has them:
`*`, numbers, ranges, lists, steps, names of months and days; 0 and 7 are both Sunday. Where the day
of the month and the day of the week are both restricted, a day that matches one of them is enough;
a field that begins with `*` is no restriction, so that with `*/2` a day must match both.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

EXPRESSION_CHARS_MAX = 200
EXAMPLE = "'0 9 * * mon-fri'"
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
LEAP_YEAR = 2024


@dataclass(frozen=True, slots=True)
class CronField:
    """The allowed values of one of the five fields."""

    name: str
    lowest: int
    highest: int
    names: Mapping[str, int] = field(default_factory=dict)


FIELDS = (
    CronField("minute", 0, 59),
    CronField("hour", 0, 23),
    CronField("day of the month", 1, 31),
    CronField("month", 1, 12, {name: number for number, name in enumerate(MONTHS, 1)}),
    CronField("day of the week", 0, 7, {name: number for number, name in enumerate(DAYS)}),
)


@dataclass(frozen=True, slots=True)
class CronExpression:
    """The values that each field matches; days of the week count from Sunday, which is 0.

    With `is_either_day` a day that matches one of its two fields is enough."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    is_either_day: bool

    @property
    def is_hourly(self) -> bool:
        """Whether it is due in each hour of the day."""
        return len(self.hours) == 24

    @property
    def recurs_within_hours(self) -> bool:
        """Whether it is due several times in an hour."""
        return len(self.minutes) > 1

    @property
    def is_possible(self) -> bool:
        """Whether any date matches it; it does not where the months lack the days."""
        if self.is_either_day:
            return True
        shortest = min(self.days)
        return any(shortest <= monthrange(LEAP_YEAR, month)[1] for month in self.months)


@lru_cache(maxsize=1_024)
def parse_cron(expression: str) -> CronExpression:
    """The parsed expression. Raises ValueError with a sentence that names the field."""
    if len(expression) > EXPRESSION_CHARS_MAX:
        raise ValueError(f"it has {len(expression)} characters, at most {EXPRESSION_CHARS_MAX}")
    words = expression.strip().lower()
    if words.startswith("@"):
        if words not in ALIASES:
            raise ValueError(f"{words} is not known: use one of {', '.join(ALIASES)}")
        words = ALIASES[words]
    texts = words.split()
    if len(texts) != len(FIELDS):
        names = ", ".join(each.name for each in FIELDS)
        raise ValueError(f"it has {len(texts)} fields, and needs 5 ({names}), such as {EXAMPLE}")
    minutes, hours, days, months, weekdays = (
        parse_field(each, text) for each, text in zip(FIELDS, texts, strict=True)
    )
    found = CronExpression(
        minutes=minutes,
        hours=hours,
        days=days,
        months=months,
        weekdays=frozenset(day % 7 for day in weekdays),
        is_either_day=not texts[2].startswith("*") and not texts[4].startswith("*"),
    )
    if not found.is_possible:
        raise ValueError(f"day of the month {texts[2]} is in none of the months {texts[3]}")
    return found


def why_not_cron(expression: str) -> str | None:
    """The problem with an expression, in a sentence that names the field; None for a good one."""
    try:
        parse_cron(expression)
    except ValueError as problem:
        return str(problem)
    return None


def parse_field(field: CronField, text: str) -> frozenset[int]:
    """The values that a field matches. Raises ValueError."""
    return frozenset(value for part in text.split(",") for value in values_of(field, part))


def values_of(field: CronField, part: str) -> range:
    """The values of one part of a list. Raises ValueError."""
    span, slash, step_text = part.partition("/")
    step = step_of(field, part, step_text) if slash else 1
    if span == "*":
        highest = 6 if field.name == "day of the week" else field.highest
        return range(field.lowest, highest + 1, step)
    first_text, dash, last_text = span.partition("-")
    first = value_of(field, part, first_text)
    if not dash:
        return range(first, (field.highest if slash else first) + 1, step)
    last = value_of(field, part, last_text)
    if first > last and last_text == DAYS[0]:
        last = 7  # as in fri-sun
    if first > last:
        raise ValueError(
            f"{field.name} {part} begins after its end: write it as two ranges, with a comma"
        )
    return range(first, last + 1, step)


def step_of(field: CronField, part: str, text: str) -> int:
    """The number after a slash. Raises ValueError."""
    size = field.highest - field.lowest + 1
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:9]) <= size:
        raise ValueError(f"{field.name} {part} has no step from 1 to {size} after its slash")
    return int(text)


def value_of(field: CronField, part: str, text: str) -> int:
    """A number or a name. Raises ValueError."""
    if text in field.names:
        return field.names[text]
    if not (text.isascii() and text.isdigit()):
        known = f"a number, or a name like {next(iter(field.names))}" if field.names else "a number"
        raise ValueError(f"{field.name} {part or 'is empty:'} should be {known}, a range or a step")
    if not field.lowest <= int(text[:9]) <= field.highest:
        raise ValueError(f"{field.name} {text} is out of {field.lowest}-{field.highest}")
    return int(text)
