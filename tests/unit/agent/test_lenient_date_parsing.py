"""MEM-17: times as models write them, for `conversation_search` and `conversation_search_date`. Now
is Sunday, 17 May 2026, 12:30 UTC; the agent lives in Berlin, two hours ahead."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from services.agent.adapters.lenient_date_parsing import Reader

READER = Reader(datetime(2026, 5, 17, 12, 30, tzinfo=UTC), ZoneInfo("Europe/Berlin"))
LAST = ":59:59.999999"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        # ISO 8601 and RFC 3339
        ("2026-05-01T10:00", "2026-05-01T08:00"),
        ("2026-05-01 10:00:30", "2026-05-01T08:00:30"),
        ("20260501T1000", "2026-05-01T08:00"),
        ("2026-05-01t10:00:00z", "2026-05-01T10:00"),
        ("2026-05-01T10:00:00.25-05:00", "2026-05-01T15:00:00.250000"),
        ("2026-02-01T10:00", "2026-02-01T09:00"),  # no summer time
        # zones
        ("2026-05-01 10:00 UTC", "2026-05-01T10:00"),
        ("2026-05-01 10:00 America/New_York", "2026-05-01T14:00"),
        ("2026-05-01T10:00[Asia/Tokyo]", "2026-05-01T01:00"),
        ("2026-05-01 10:00 local", "2026-05-01T08:00"),
        # Unix seconds and milliseconds, also after January 2038
        ("1767225600", "2026-01-01T00:00"),
        ("1767225600.5", "2026-01-01T00:00:00.500000"),
        ("1767225600123", "2026-01-01T00:00:00.123000"),
        ("4102444800", "2100-01-01T00:00"),
        ("2205-07-01T00:00Z", "2205-07-01T00:00"),
        # a leap second is the last moment before midnight
        ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59.999999"),
        ("2016-12-31T23:59:60.5+00:00", "2016-12-31T23:59:59.999999"),
        # words
        ("now", "2026-05-17T12:30"),
        ("30 mins ago", "2026-05-17T12:00"),
        ("an hour ago", "2026-05-17T11:30"),
    ],
)
def test_a_moment_begins_and_ends_at_once(text: str, moment: str) -> None:
    assert READER.read_span(text) == (at(moment), at(moment))


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("2026-05-01", "2026-04-30T22:00", f"2026-05-01T21{LAST}"),
        ("20260501", "2026-04-30T22:00", f"2026-05-01T21{LAST}"),
        ("2026-W18-5", "2026-04-30T22:00", f"2026-05-01T21{LAST}"),
        ("2026-05-01 Asia/Tokyo", "2026-04-30T15:00", f"2026-05-01T14{LAST}"),
        ("2026-03-29", "2026-03-28T23:00", f"2026-03-29T21{LAST}"),  # a day of 23 hours
        ("2040-02-29", "2040-02-28T23:00", f"2040-02-29T22{LAST}"),
        ("2026-05", "2026-04-30T22:00", f"2026-05-31T21{LAST}"),
        ("2026", "2025-12-31T23:00", f"2026-12-31T22{LAST}"),
        ("9999-12-31", "9999-12-30T23:00", f"9999-12-31T23{LAST}"),
        ("Today", "2026-05-16T22:00", f"2026-05-17T21{LAST}"),
        ("yesterday", "2026-05-15T22:00", f"2026-05-16T21{LAST}"),
        ("tomorrow", "2026-05-17T22:00", f"2026-05-18T21{LAST}"),
        ("3 days ago", "2026-05-13T22:00", f"2026-05-14T21{LAST}"),
        ("a week ago", "2026-05-09T22:00", f"2026-05-10T21{LAST}"),
        ("2 years ago", "2024-05-16T22:00", f"2024-05-17T21{LAST}"),
        ("last 7 days", "2026-05-10T12:30", "2026-05-17T12:30"),
        ("the past 24 hours", "2026-05-16T12:30", "2026-05-17T12:30"),
        ("last 3 months", "2026-02-17T13:30", "2026-05-17T12:30"),
        ("this week", "2026-05-10T22:00", f"2026-05-17T21{LAST}"),
        ("last  week", "2026-05-03T22:00", f"2026-05-10T21{LAST}"),
        ("last month", "2026-03-31T22:00", f"2026-04-30T21{LAST}"),
        ("this year", "2025-12-31T23:00", f"2026-12-31T22{LAST}"),
        ("monday", "2026-05-10T22:00", f"2026-05-11T21{LAST}"),
        ("last sunday", "2026-05-09T22:00", f"2026-05-10T21{LAST}"),
    ],
)
def test_a_day_or_a_span_is_meant_from_its_beginning_to_its_end(
    text: str, first: str, last: str
) -> None:
    assert READER.read_span(text) == (at(first), at(last))


@pytest.mark.parametrize(
    "text",
    [
        "soon", "2026-02-30", "2026-13", "0001-01-01", "9999-12-31T23:00-05:00", "10:00", "12",
        "1e9", "last 999999 years", "2026-05-01 10:00 PST", "2026-05-01 10:00 Europe",
        "2026-05-01 ../../etc/passwd", "٢٠٢٦-05-01", "1" * 99, "x" * 1_000_000,
    ],
    ids=lambda text: text[:12],
)  # fmt: skip
def test_what_is_no_time_is_an_error_that_shows_how_to_write_one(text: str) -> None:
    wrong = READER.span("yesterday", text)
    assert isinstance(wrong, str)
    assert "`end_date`" in wrong
    assert "'last 7 days'" in wrong
    assert len(wrong) < 500


def test_the_start_is_before_the_end() -> None:
    wrong = READER.span("today", "yesterday")
    assert isinstance(wrong, str)
    assert "`start_date` (2026-05-16T22:00:00+00:00) is after" in wrong
    assert READER.span("today", "today") == (at("2026-05-16T22:00"), at(f"2026-05-17T21{LAST}"))


@pytest.mark.parametrize("nothing", [None, "", "  "])
def test_nothing_is_no_bound(nothing: Any) -> None:
    assert READER.span(nothing, nothing) == (None, None)
