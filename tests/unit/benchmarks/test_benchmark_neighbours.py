"""How the loads of `benchmarks.neighbours` are judged."""

from __future__ import annotations

from collections import Counter

import httpx
import pytest

from benchmarks.neighbour_loads import endless_quotes, many_members, words
from benchmarks.neighbours import Outcomes, Waits


@pytest.mark.parametrize(
    ("end", "is_clear", "is_well"),
    [
        ("200", True, True),
        ("429 too many", True, False),
        ("422 a line is too long", True, False),
        ("503 this request waited for 10 s", False, False),
        ("no answer: ReadTimeout", False, False),
    ],
)
def test_a_refusal_is_a_clear_answer_and_an_outage_is_none(
    end: str, is_clear: bool, is_well: bool
) -> None:
    outcomes = Outcomes(Counter({"200": 3, end: 1}))
    assert (outcomes.are_clear, outcomes.are_well) == (is_clear, is_well)


def test_a_refusal_is_printed_with_what_it_says() -> None:
    assert words(httpx.Response(200, json={})) == "200"
    assert words(httpx.Response(422, json={"detail": "no"})) == '422 "no"'
    assert words(httpx.Response(502, text="bad gateway")) == "502 bad gateway"


def test_waits_are_judged_by_their_median_and_their_slowest() -> None:
    waits = Waits([float(number) for number in range(1, 101)])
    assert (waits.median, waits.p99) == (50.0, 99.0)


def test_the_hostile_files_are_as_small_as_they_were_found() -> None:
    assert len(endless_quotes()) < 200
    assert len(many_members()) < 300_000
