"""The bounds of a search in time, as people and models write them: ISO 8601, or a date alone."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, tzinfo
from zoneinfo import ZoneInfo

FORMS = "2026-01-31, 2026-01-31T14:30 or 2026-01-31T14:30:00+02:00"


def first_moment(text: str, zone: tzinfo) -> datetime:
    """The moment from which on a text means; a date is its beginning. Raises ValueError."""
    return moment(text, zone, time.min)


def last_moment(text: str, zone: tzinfo) -> datetime:
    """The moment up to which a text means; a date is its end. Raises ValueError."""
    return moment(text, zone, time.max)


def moment(text: str, zone: tzinfo, of_day: time) -> datetime:
    """A moment in UTC; without a time it is this one of its day, without a zone it is in this.
    What is beyond the years 1 to 9999 there is the end of them. Raises ValueError."""
    text = text.strip()
    try:
        day = date.fromisoformat(text)
        found = datetime.combine(day, of_day)
    except ValueError:
        found = datetime.fromisoformat(text)
    try:
        return (found if found.tzinfo else found.replace(tzinfo=zone)).astimezone(UTC)
    except OverflowError:
        return (datetime.min if found.year == 1 else datetime.max).replace(tzinfo=UTC)


def in_zone(text: str, zone: tzinfo) -> datetime:
    """A time of a document in a zone; as it is, where that is beyond the years 1 to 9999 there."""
    found = datetime.fromisoformat(text)
    try:
        return found.astimezone(zone)
    except OverflowError:
        return found


def zone_named(name: str) -> tzinfo:
    """The time zone of an agent, which was checked when the agent got it."""
    return ZoneInfo(name or "UTC")
