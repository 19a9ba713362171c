"""What the clocks on the wall of a time zone show, and when: pure arithmetic of time.

Where clocks go back, they show an hour twice; where they go forward, they leave one out, the gap.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from difflib import get_close_matches
from zoneinfo import ZoneInfo, available_timezones

ONE_SECOND = timedelta(seconds=1)
NEAR_NAMES_MAX = 3


def zone_named(timezone: str) -> ZoneInfo:
    """An IANA zone. Raises ValueError, which names zones of nearly that name."""
    try:
        return ZoneInfo(timezone)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"'{timezone}' is no IANA time zone: use {near_names(timezone)}") from None


def near_names(timezone: str) -> str:
    """Names of zones that somebody may have meant, in words."""
    names = {name.lower(): name for name in available_timezones()}
    cities = {name.rpartition("/")[2]: whole for name, whole in sorted(names.items())}
    wanted = timezone.strip().lower().replace(" ", "_")[:100]
    found = [names[name] for name in get_close_matches(wanted, names, NEAR_NAMES_MAX, 0.7)]
    city = wanted.rpartition("/")[2]
    found += [cities[name] for name in get_close_matches(city, cities, NEAR_NAMES_MAX, 0.7)]
    shown = list(dict.fromkeys(found))[:NEAR_NAMES_MAX]
    return " or ".join(f"'{name}'" for name in shown) or "one like 'Europe/Berlin'"


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
    """How far the clocks of its zone are ahead of UTC."""
    offset = moment.utcoffset()
    assert offset is not None, "zones have an offset at any time"
    return offset
