"""Wall-clock times of a time zone: pure arithmetic of time.

Where clocks go back, they show an hour twice; where they go forward, they leave one out, the gap.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from difflib import get_close_matches
from zoneinfo import ZoneInfo, available_timezones

ONE_SECOND = timedelta(seconds=1)
NEAR_NAMES_MAX = 3
YEAR_OF_OFFSETS = 2026  # in which places are looked at
OFFSET = re.compile(r"(?:GMT|UTC)?([+-])([0-9]{1,2})(?::?([0-5][0-9]))?", re.ASCII | re.IGNORECASE)
# Names of clocks that are no zones, and a place in which they are used.
PLACES_OF_CLOCKS = {
    **dict.fromkeys(("PST", "PDT", "PT"), "America/Los_Angeles"),
    **dict.fromkeys(("MDT", "MT"), "America/Denver"),
    **dict.fromkeys(("CST", "CDT", "CT"), "America/Chicago"),
    **dict.fromkeys(("EDT", "ET"), "America/New_York"),
    **{"BST": "Europe/London", "WEST": "Europe/Lisbon", "CEST": "Europe/Berlin"},
    **{"EEST": "Europe/Athens", "MSK": "Europe/Moscow", "IST": "Asia/Kolkata"},
    **{"SGT": "Asia/Singapore", "JST": "Asia/Tokyo", "KST": "Asia/Seoul"},
    **dict.fromkeys(("AEST", "AEDT"), "Australia/Sydney"),
    **dict.fromkeys(("NZST", "NZDT"), "Pacific/Auckland"),
}


def zone_named(timezone: str) -> ZoneInfo:
    """An IANA zone. Raises ValueError, which names zones of nearly that name."""
    try:
        return ZoneInfo(timezone)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"'{timezone}' is no IANA time zone: use {near_names(timezone)}") from None


def near_names(timezone: str) -> str:
    """Names of zones that somebody may have meant, in words."""
    offset = OFFSET.fullmatch("".join(timezone.replace("\N{MINUS SIGN}", "-").split()))
    if offset:
        return zone_of_offset(*offset.groups("0"))
    if place := PLACES_OF_CLOCKS.get(timezone.strip().upper()):
        return f"a place with these clocks, such as '{place}'"
    names = {name.lower(): name for name in available_timezones()}
    cities = {name.rpartition("/")[2]: whole for name, whole in sorted(names.items())}
    wanted = timezone.strip().lower().replace(" ", "_")[:100]
    found = [names[name] for name in get_close_matches(wanted, names, NEAR_NAMES_MAX, 0.7)]
    city = wanted.rpartition("/")[2]
    found += [cities[name] for name in get_close_matches(city, cities, NEAR_NAMES_MAX, 0.7)]
    shown = list(dict.fromkeys(found))[:NEAR_NAMES_MAX]
    return " or ".join(f"'{name}'" for name in shown) or "one like 'Europe/Berlin'"


def zone_of_offset(sign: str, hours: str, minutes: str) -> str:
    """Which zone always has this offset, in words: the signs in the names of those are reversed."""
    ahead = timedelta(hours=int(hours), minutes=int(minutes)) * (-1 if sign == "-" else 1)
    if not ahead:
        return "'UTC'"
    found = sorted(name for name in available_timezones() if has_always(name, ahead))
    place = "a place with these clocks"
    place += f", such as '{found[0]}'" if found else ", written like 'Europe/Berlin'"
    name = f"Etc/GMT{'-' if sign == '+' else '+'}{int(hours)}"
    if int(minutes) or name not in available_timezones():
        return place
    return f"{place}, or '{name}', which is {sign}{int(hours):02}:00: its name has the other sign"


def has_always(name: str, ahead: timedelta) -> bool:
    """Whether a zone is a place that has this offset in winter and in summer."""
    if "/" not in name or name.startswith("Etc/"):
        return False
    days = (datetime(YEAR_OF_OFFSETS, month, 15, tzinfo=ZoneInfo(name)) for month in (1, 7))
    return all(offset_of(day) == ahead for day in days)


def moment_on_wall(wall: datetime, zone: tzinfo) -> datetime:
    """When clocks show a time, in UTC: the first time, where they show it twice, and the first
    moment after the gap, where they never do."""
    return moments_of(wall, zone)[0] or end_of_gap(wall, zone)


def moments_of(wall: datetime, zone: tzinfo) -> tuple[datetime | None, datetime | None]:
    """When clocks show a time, in UTC: the first moment, None if they never do, and the second, if
    they show it twice."""
    before = offset_of(wall.replace(tzinfo=zone))
    behind = offset_of(wall.replace(tzinfo=zone, fold=1))
    if before < behind:
        return None, None
    first = (wall - before).replace(tzinfo=UTC)
    return first, None if before == behind else (wall - behind).replace(tzinfo=UTC)


def end_of_gap(wall: datetime, zone: tzinfo) -> datetime:
    """The first moment after the gap in which a time lies, in UTC."""
    low = (wall - offset_of(wall.replace(tzinfo=zone, fold=1))).replace(tzinfo=UTC, microsecond=0)
    high = (wall - offset_of(wall.replace(tzinfo=zone))).replace(tzinfo=UTC, microsecond=0)
    before = offset_of(low.astimezone(zone))
    while high - low > ONE_SECOND:
        middle = (low + (high - low) / 2).replace(microsecond=0)
        same = offset_of(middle.astimezone(zone)) == before
        low, high = (middle, high) if same else (low, middle)
    return high


def offset_of(moment: datetime) -> timedelta:
    """The time that the clocks of its zone are ahead of UTC."""
    offset = moment.utcoffset()
    assert offset is not None, "zones have an offset at any time"
    return offset
