"""When cron expressions are due, over the changes of a year in ten zones.

What is right is said by an oracle that looks at every minute of UTC at what the clocks of the zone
show, and, where its policy is the same, by cronsim, which others wrote."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.contracts.scheduler.cron_expressions import parse_cron, why_not_cron
from libs.contracts.wall_times import end_of_gap, moment_on_wall, near_names, zone_named
from services.scheduler.domain.recurrence import next_slots

ONE_MINUTE = timedelta(minutes=1)
ZONES = (
    *("America/New_York", "Europe/Berlin", "Europe/London", "Australia/Lord_Howe", "Asia/Kolkata"),
    *("Pacific/Apia", "America/Santiago", "Pacific/Chatham", "Asia/Tehran", "Pacific/Auckland"),
)
EXPRESSIONS = (
    *("* * * * *", "*/15 * * * *", "0 * * * *", "20,50 * * * *", "45 * * * *"),
    *("30 2 * * *", "*/15 2 * * *", "0 3 * * *", "30 1 * * *", "15,45 1 * * *", "45 1,2 * * *"),
    *("0 0 * * *", "30 0 * * *", "30 23 * * *", "0 9 * * mon-fri", "30 2 * * sun", "45 2 1-7 * 0"),
    *("10-20/5 0-3 * * *", "0 */2 * * *", "59 23 * * 7", "30 3 * * 6"),
)
# Years of the database of time zones in which all of these zones are as they are now.
YEAR = 2027


def changes(zone_name: str) -> list[datetime]:
    """The moments of a year at which the clocks of a zone are changed; else two days of it."""
    zone, moment = ZoneInfo(zone_name), datetime(YEAR, 1, 1, tzinfo=UTC)
    found = []
    while moment.year == YEAR:
        later = moment + timedelta(hours=6)
        if moment.astimezone(zone).utcoffset() != later.astimezone(zone).utcoffset():
            found.append(moment)
        moment = later
    return found or [datetime(YEAR, 3, 28, tzinfo=UTC), datetime(YEAR, 10, 31, tzinfo=UTC)]


CASES = [(zone, around) for zone in ZONES for around in changes(zone)]


def test_most_of_the_zones_change_their_clocks_twice_in_the_year() -> None:
    with_gap_and_overlap = [zone for zone in ZONES if len(changes(zone)) == 2]
    assert len(with_gap_and_overlap) == len(ZONES)
    still = [
        zone
        for zone in ZONES
        if len({around.astimezone(ZoneInfo(zone)).utcoffset() for around in changes(zone)}) == 1
    ]
    assert still == ["Asia/Kolkata", "Pacific/Apia", "Asia/Tehran"]


def days_match(expression: str, day: date) -> bool:
    """Whether an expression is due on a day: one of its two fields is enough, if both restrict."""
    texts, cron = expression.split(), parse_cron(expression)
    day_fits, weekday_fits = day.day in cron.days, day.isoweekday() % 7 in cron.weekdays
    if day.month not in cron.months:
        return False
    if texts[2].startswith("*") or texts[4].startswith("*"):
        return day_fits and weekday_fits
    return day_fits or weekday_fits


def matches(expression: str, wall: datetime) -> bool:
    cron = parse_cron(expression)
    return wall.minute in cron.minutes and wall.hour in cron.hours and days_match(expression, wall)


@cache
def minutes_of(
    zone_name: str, since: datetime, until: datetime
) -> list[tuple[datetime, datetime, bool, list[datetime]]]:
    """The minutes of UTC: what clocks show in each, whether for the second time, and what they have
    left out just before."""
    zone, found, seen = ZoneInfo(zone_name), [], set[datetime]()
    moment = since - timedelta(hours=30)
    shown = moment.astimezone(zone).replace(tzinfo=None, fold=0)
    while moment < until:
        moment += ONE_MINUTE
        before, shown = shown, moment.astimezone(zone).replace(tzinfo=None, fold=0)
        minutes = int((shown - before) / ONE_MINUTE)
        left_out = [before + number * ONE_MINUTE for number in range(1, minutes)]
        found.append((moment, shown, shown in seen, left_out))
        seen.add(shown)
    return found


def oracle(expression: str, zone_name: str, since: datetime, until: datetime) -> list[datetime]:
    """Walk through the minutes of UTC and look at the clock; by the policy of the module."""
    cron = parse_cron(expression)
    every_hour = len(cron.hours) == 24
    both_passes = every_hour or len(cron.minutes) > 1
    return [
        moment
        for moment, shown, again, left_out in minutes_of(zone_name, since, until)
        if since < moment <= until
        and (
            (matches(expression, shown) and (both_passes or not again))
            or (not every_hour and any(matches(expression, wall) for wall in left_out))
        )
    ]


@pytest.mark.parametrize(("zone_name", "around"), CASES)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_slots_are_those_that_a_look_at_each_minute_finds(
    zone_name: str, around: datetime, expression: str
) -> None:
    since, until = around - timedelta(hours=20), around + timedelta(hours=40)
    expected = oracle(expression, zone_name, since, until)
    found = next_slots(expression, zone_name, since, len(expected) + 1)
    assert [slot for slot in found if slot <= until] == expected
    assert found[len(expected) :] == [] or found[len(expected)] > until


@pytest.mark.parametrize(("zone_name", "around"), CASES)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_slots_are_those_of_another_library_where_clocks_are_not_changed(
    zone_name: str, around: datetime, expression: str
) -> None:
    """Its policy on the day of the change is Debian's, which is another one for some expressions:
    compared are the days before and after it."""
    zone = ZoneInfo(zone_name)
    for since in (around - timedelta(days=40), around + timedelta(days=3)):
        theirs = CronSim(expression, since.astimezone(zone))
        expected = [next(theirs).astimezone(UTC) for _ in range(20)]
        if expected[-1] - since < timedelta(days=30):
            assert next_slots(expression, zone_name, since, 20) == expected


@pytest.mark.parametrize(("zone_name", "around"), CASES)
@pytest.mark.parametrize("expression", ["30 2 * * *", "0 3 * * *", "30 0 * * *", "0 9 * * mon-fri"])
def test_fixed_times_are_those_of_another_library_on_the_day_of_the_change_too(
    zone_name: str, around: datetime, expression: str
) -> None:
    zone, since = ZoneInfo(zone_name), around - timedelta(days=2)
    theirs = CronSim(expression, since.astimezone(zone))
    expected = [next(theirs).astimezone(UTC) for _ in range(6)]
    assert next_slots(expression, zone_name, since, 6) == expected


def test_an_hour_that_does_not_exist_fires_once_after_it_and_one_that_comes_twice_once() -> None:
    def local(expression: str, since: datetime, count: int) -> list[str]:
        slots = next_slots(expression, "Europe/Berlin", since, count)
        return [slot.astimezone(ZoneInfo("Europe/Berlin")).strftime("%d %H:%M%z") for slot in slots]

    spring, autumn = datetime(2026, 3, 28, 12, tzinfo=UTC), datetime(2026, 10, 24, 12, tzinfo=UTC)
    assert local("30 2 * * *", spring, 2) == ["29 03:00+0200", "30 02:30+0200"]
    assert local("*/15 2 * * *", spring, 2) == ["29 03:00+0200", "30 02:00+0200"]
    assert local("30 2 * * *", autumn, 2) == ["25 02:30+0200", "26 02:30+0100"]
    both = ["25 02:00+0200", "25 02:30+0200", "25 02:00+0100", "25 02:30+0100", "26 02:00+0100"]
    assert local("0,30 2 * * *", autumn, 5) == both


def test_a_day_that_a_zone_left_out_fires_once_at_its_end() -> None:
    since = datetime(2011, 12, 30, 9, 59, tzinfo=UTC)  # 29 December, 23:59 on Apia
    found = next_slots("0 */6 * * *", "Pacific/Apia", since, 2)
    assert found == [datetime(2011, 12, 30, 10, tzinfo=UTC), datetime(2011, 12, 30, 16, tzinfo=UTC)]
    zone = ZoneInfo("Pacific/Apia")
    assert end_of_gap(datetime(2011, 12, 30, 15, 30), zone) == found[0]


@settings(max_examples=60, deadline=None)
@given(
    zone_name=st.sampled_from(ZONES),
    expression=st.sampled_from(EXPRESSIONS),
    minutes=st.integers(0, 365 * 24 * 60),
    seconds=st.integers(0, 59),
)
def test_slots_follow_each_other_wherever_one_begins(
    zone_name: str, expression: str, minutes: int, seconds: int
) -> None:
    since = datetime(YEAR, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes, seconds=seconds)
    slots = next_slots(expression, zone_name, since, 12)
    assert slots == sorted(set(slots))
    assert all(slot > since for slot in slots)
    assert next_slots(expression, zone_name, slots[4], 7) == slots[5:]
    between = slots[4] + timedelta(seconds=1)
    assert next_slots(expression, zone_name, between, 7) == slots[5:]


def test_a_day_that_matches_one_of_two_restricted_fields_is_enough() -> None:
    since = datetime(2027, 1, 1, tzinfo=UTC)
    found = next_slots("0 0 13 * fri", "UTC", since, 5)
    assert [slot.day for slot in found] == [8, 13, 15, 22, 29]
    both = next_slots("0 0 */2 * fri", "UTC", since, 3)
    assert [(slot.day, slot.weekday()) for slot in both] == [(15, 4), (29, 4), (5, 4)]


def test_the_rarest_day_is_found() -> None:
    since = datetime(2096, 3, 1, tzinfo=UTC)
    [slot] = next_slots("0 0 29 2 *", "UTC", since, 1)
    assert slot == datetime(2104, 2, 29, tzinfo=UTC)


def test_nothing_comes_after_the_last_year() -> None:
    assert next_slots("0 0 1 1 *", "UTC", datetime(9998, 6, 1, tzinfo=UTC), 3) == []


@pytest.mark.parametrize(
    ("alias", "same"),
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@weekly", "0 0 * * sun"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 jan *"),
        ("0 0 * * fri-sun", "0 0 * * 5-7"),
        ("0 0 * * 0", "0 0 * * 7"),
        (" 5  4 * FEB-APR  Mon ", "5 4 * 2-4 1"),
        ("5/20 * * * *", "5-59/20 * * * *"),
    ],
)
def test_what_is_written_otherwise_means_the_same(alias: str, same: str) -> None:
    assert parse_cron(alias) == parse_cron(same)


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("75 * * * *", "minute 75 is out of 0-59"),
        ("0 24 * * *", "hour 24 is out of 0-23"),
        ("0 0 0 * *", "day of the month 0 is out of 1-31"),
        ("0 0 * 13 *", "month 13 is out of 1-12"),
        ("0 0 * * 8", "day of the week 8 is out of 0-7"),
        ("0 0 30 2 *", "day of the month 30 is in none of the months 2"),
        ("0 0 31 4,6,9,11 *", "day of the month 31 is in none of the months 4,6,9,11"),
        ("* * * *", "it has 4 fields, and needs 5"),
        ("* * * * * *", "it has 6 fields, and needs 5"),
        ("", "it has 0 fields, and needs 5"),
        ("*/0 * * * *", "minute */0 has no step from 1 to 60"),
        ("*/61 * * * *", "minute */61 has no step from 1 to 60"),
        ("30-10 * * * *", "minute 30-10 begins after its end"),
        ("a * * * *", "minute a should be a number"),
        ("1,,2 * * * *", "minute is empty: should be a number"),
        ("-5 * * * *", "minute -5 should be a number"),
        ("0 0 * foo *", "month foo should be a number, or a name like jan"),
        ("0 0 * * mon#1", "day of the week mon#1 should be a number, or a name like sun"),
        ("٣ * * * *", "minute ٣ should be a number"),
        ("9999999999999 * * * *", "is out of 0-59"),
        ("@reboot", "@reboot is not known: use one of @hourly"),
        ("* " * 200, "it has 400 characters, at most 200"),
    ],
)
def test_what_is_no_expression_is_refused_by_the_name_of_the_field(
    expression: str, why: str
) -> None:
    reason = why_not_cron(expression)
    assert reason is not None
    assert why in reason
    with pytest.raises(ValueError, match=r"\w"):
        next_slots(expression, "UTC", datetime(2027, 1, 1, tzinfo=UTC), 1)


def test_a_good_expression_has_nothing_wrong() -> None:
    assert [why_not_cron(expression) for expression in EXPRESSIONS] == [None] * len(EXPRESSIONS)


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="0123456789*/,-@ abjmonfri#L?", max_size=30))
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    reason = why_not_cron(text)
    if reason is None:
        assert next_slots(text, "UTC", datetime(2027, 1, 1, tzinfo=UTC), 1)
    else:
        assert reason


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Europe/Berln", "'Europe/Berlin'"),
        ("europe/berlin", "'Europe/Berlin'"),
        ("new york", "'America/New_York'"),
        ("Tokyo", "'Asia/Tokyo'"),
        ("qqqqqq", "one like 'Europe/Berlin'"),
        ("../../etc/passwd", "use "),
    ],
)
def test_an_unknown_zone_names_those_that_are_near(name: str, meant: str) -> None:
    with pytest.raises(ValueError, match="is no IANA time zone: use ") as refusal:
        zone_named(name)
    assert meant in str(refusal.value)
    assert near_names(name)


def test_a_time_on_the_wall_is_its_first_moment_or_the_end_of_the_gap() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    assert moment_on_wall(datetime(2026, 3, 29, 2, 30), berlin) == datetime(
        2026, 3, 29, 1, tzinfo=UTC
    )
    assert moment_on_wall(datetime(2026, 10, 25, 2, 30), berlin) == datetime(
        2026, 10, 25, 0, 30, tzinfo=UTC
    )
    assert moment_on_wall(datetime(2026, 7, 1, 12), berlin) == datetime(2026, 7, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("GMT+2", "'Etc/GMT-2', which is +02:00"),
        ("UTC+2", "'Etc/GMT-2', which is +02:00"),
        ("utc-05:00", "'Etc/GMT+5', which is -05:00"),
        ("+02:00", "'Etc/GMT-2', which is +02:00"),
        ("-0300", "'Etc/GMT+3', which is -03:00"),
        ("CEST", "'Europe/Berlin'"),
        ("pst", "'America/Los_Angeles'"),
        ("europe/berlin", "'Europe/Berlin'"),
    ],
)
def test_an_offset_or_the_name_of_a_clock_leads_to_a_zone_that_has_it(name: str, hint: str) -> None:
    with pytest.raises(ValueError, match="is no IANA time zone") as refusal:
        zone_named(name)
    assert hint in str(refusal.value)


@pytest.mark.parametrize(
    "name", ["GMT+5:30", "+0530", "UTC-5", "UTC\N{MINUS SIGN}5", "UTC+14", "GMT +2"]
)
def test_an_offset_leads_to_a_place_that_always_has_it(name: str) -> None:
    hint = near_names(name)
    place = hint.partition("such as '")[2].partition("'")[0]
    winter, summer = (datetime(2026, month, 1, tzinfo=ZoneInfo(place)) for month in (1, 7))
    digits = [int(part) for part in re.findall(r"[1-9]", name)]
    assert winter.utcoffset() == summer.utcoffset()
    assert str(digits[0]) in f"{winter:%z}"
    assert (f"{winter:%z}"[0] == "+") is ("+" in name)


def test_an_offset_of_no_place_leads_to_none() -> None:
    assert "such as" not in near_names("UTC+99")
    assert near_names("GMT+0") == "'UTC'"


@pytest.mark.parametrize("name", ["EST", "US/Eastern", "Asia/Calcutta", "Etc/GMT+2"])
def test_old_names_of_zones_are_known(name: str) -> None:
    assert zone_named(name).key == name
