"""Times as models write them: ISO 8601, RFC 3339, Unix seconds or milliseconds, and words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

TEXT_CHARS_MAX = 100
UNIX_MILLISECONDS_MIN = 100_000_000_000  # in seconds that would be the year 5138

_UNIX = re.compile(r"-?\d{9,17}(\.\d{1,9})?", re.ASCII)
_ZONE = re.compile(r"(.+?)\s*(?:\[([\w+\-/]+)\]|\s([A-Za-z][\w+\-]*(?:/[\w+\-/]+)?))", re.ASCII)
_LEAP_SECOND = re.compile(r"(\d\d:?\d\d:?)60(?:[.,]\d+)?(?=$|[Z+\-])", re.ASCII)
_YEAR_OR_MONTH = re.compile(r"(\d{4})(?:-(\d\d))?", re.ASCII)
_LAST = re.compile(r"(?:the )?(?:last|past|previous) (\d{1,6}) (\w+?)s?", re.ASCII)
_AGO = re.compile(r"(an?|\d{1,6}) (\w+?)s? ago", re.ASCII)
_PERIOD = re.compile(r"(this|last|past|previous) (day|week|month|year)", re.ASCII)
_DAY_NAME = re.compile(r"(?:(?:on|last) )?(\w+)", re.ASCII)

_DAY = timedelta(days=1)
_LENGTHS: Mapping[str, timedelta] = {
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": _DAY,
    "week": timedelta(weeks=1),
}
_UNITS: Mapping[str, str] = {"sec": "second", "min": "minute", "hr": "hour"}
_MONTHS: Mapping[str, int] = {"month": 1, "year": 12}
_DAYS: Mapping[str, int] = {"today": 0, "yesterday": -1, "tomorrow": 1}
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_END = timedelta(microseconds=1)

FORMS = (
    "2026-01-31, 2026-01-31T14:30, 2026-01-31T14:30:00+02:00, '2026-01-31 14:30 Europe/Berlin', "
    "Unix seconds as 1767225600, or words as 'now', 'yesterday', '2 hours ago', 'last 7 days', "
    "'this month'"
)

type Span = tuple[datetime | None, datetime | None]


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads times in the zone of an agent, at a moment that is now for it."""

    now: datetime
    zone: tzinfo

    def span(
        self,
        start: str | None,
        end: str | None,
        names: tuple[str, str] = ("start_date", "end_date"),
    ) -> Span | str:
        """From when to when, or what is wrong, written for the model, to which the two arguments
        have these names. Nothing and empty text are no bound; a day, a month or a span in words is
        meant from its beginning to its end."""
        bounds: list[datetime | None] = []
        for place, (name, text) in enumerate(zip(names, (start or "", end or ""), strict=True)):
            found = self.read_span(text)
            if found is None:
                shown = text[:TEXT_CHARS_MAX]
                return f"`{name}` is '{shown}', which is no time that is understood. Use {FORMS}."
            bounds.append(found[place])
        since, until = bounds
        if since is not None and until is not None and since > until:
            return (
                f"`{names[0]}` ({since.isoformat()}) is after `{names[1]}` ({until.isoformat()}): "
                f"give the earlier one as `{names[0]}`."
            )
        return since, until

    def read_span(self, text: str) -> Span | None:
        """The first and the last moment that a text may mean, in UTC. Both are None for an empty
        text; the whole is None for a text that is no date."""
        text = " ".join(text.split())
        if not text:
            return None, None
        if len(text) > TEXT_CHARS_MAX:
            return None
        try:
            first, last = self.in_words(text.lower()) or self.in_figures(text)
            return first.astimezone(UTC), last.astimezone(UTC)
        except (ValueError, OverflowError, OSError, KeyError):
            return None

    def in_figures(self, text: str) -> tuple[datetime, datetime]:
        """A time that is written as a date or as a number. Raises ValueError."""
        if _UNIX.fullmatch(text):
            return at_once(unix(text))
        zoned = _ZONE.fullmatch(text)
        if zoned:
            zone = zone_of(zoned[2] or zoned[3], self.zone)
            return Reader(self.now, zone).in_figures(zoned[1])
        period = _YEAR_OR_MONTH.fullmatch(text)
        if period:
            first = date(int(period[1]), int(period[2] or 1), 1)
            return self.days(first, months_later(first, 1 if period[2] else 12))
        if text.isdigit() and len(text) != len("20260131"):
            raise ValueError(text)
        clamped = _LEAP_SECOND.sub(r"\g<1>59.999999", text.upper())
        found = datetime.fromisoformat(clamped)
        if ":" not in text and "T" not in clamped and " " not in text:
            return self.day(found.date())
        return at_once(found if found.tzinfo else found.replace(tzinfo=self.zone))

    def in_words(self, text: str) -> tuple[datetime, datetime] | None:
        """A time that is written in words; None for other text."""
        here = self.now.astimezone(self.zone)
        today = here.date()
        if text == "now":
            return at_once(here)
        if text in _DAYS:
            first = today + timedelta(days=_DAYS[text])
            return self.day(first)
        if found := _LAST.fullmatch(text):
            return self.before(int(found[1]), found[2]), here
        if found := _AGO.fullmatch(text):
            count = 1 if found[1].startswith("a") else int(found[1])
            return self.around(self.before(count, found[2]), found[2])
        if found := _PERIOD.fullmatch(text):
            return self.period(today, found[2], back=found[1] != "this")
        found = _DAY_NAME.fullmatch(text)
        if found and found[1] in _WEEKDAYS:
            back = (today.weekday() - _WEEKDAYS.index(found[1])) % 7 or 7
            first = today - timedelta(days=back)
            return self.day(first)
        return None

    def before(self, count: int, unit: str) -> datetime:
        """The moment so long ago, by the clock and the calendar of the zone. Raises KeyError."""
        unit = _UNITS.get(unit, unit)
        here = self.now.astimezone(self.zone)
        if unit in _MONTHS:
            day = months_later(here.date(), -count * _MONTHS[unit])
            return here.replace(year=day.year, month=day.month, day=day.day)
        if _LENGTHS[unit] < _DAY:
            return self.now - count * _LENGTHS[unit]
        return here - count * _LENGTHS[unit]

    def around(self, moment: datetime, unit: str) -> tuple[datetime, datetime]:
        """The time meant: 'two hours ago' is a moment, 'two days ago' is a day."""
        if _LENGTHS.get(_UNITS.get(unit, unit), _DAY) < _DAY:
            return at_once(moment)
        return self.day(moment.date())

    def period(self, today: date, unit: str, *, back: bool) -> tuple[datetime, datetime]:
        """This day, week, month or year of the calendar, or the one before."""
        match unit:
            case "day":
                first = today - _DAY * back
                return self.day(first)
            case "week":
                first = today - timedelta(days=today.weekday() + 7 * back)
                return self.days(first, first + timedelta(days=7))
        months = _MONTHS[unit]
        first = today.replace(day=1) if unit == "month" else today.replace(month=1, day=1)
        first = months_later(first, -months * back)
        return self.days(first, months_later(first, months))

    def days(self, first: date, end: date) -> tuple[datetime, datetime]:
        """From the beginning of a day up to the one that is not meant any more."""
        since = datetime.combine(first, time.min, self.zone)
        until = datetime.combine(end, time.min, self.zone)
        return since.astimezone(UTC), until.astimezone(UTC) - _END

    def day(self, day: date) -> tuple[datetime, datetime]:
        """A whole day, also the last that there is."""
        if day == date.max:
            since = datetime.combine(day, time.min, self.zone)
            return since.astimezone(UTC), datetime.max.replace(tzinfo=UTC)
        return self.days(day, day + _DAY)


def at_once(moment: datetime) -> tuple[datetime, datetime]:
    """A moment as a span."""
    return moment, moment


def unix(text: str) -> datetime:
    """A number of seconds or milliseconds since 1970, far beyond 2038 as well."""
    number = float(text)
    seconds = number / 1_000 if abs(number) >= UNIX_MILLISECONDS_MIN else number
    return datetime.fromtimestamp(0, UTC) + timedelta(seconds=seconds)


def zone_of(name: str, local: tzinfo) -> tzinfo:
    """The zone of this name; 'local' is the agent's. Raises KeyError and ValueError."""
    if name.lower() == "local":
        return local
    return UTC if name.upper() in ("Z", "UTC", "GMT") else ZoneInfo(name)


def months_later(day: date, count: int) -> date:
    """The day so many months later, or the last of that month if it is shorter."""
    months = day.year * 12 + day.month - 1 + count
    first = date(months // 12, months % 12 + 1, 1)
    following = (first.replace(day=28) + timedelta(days=4)).replace(day=1)
    return first.replace(day=min(day.day, (following - _DAY).day))
