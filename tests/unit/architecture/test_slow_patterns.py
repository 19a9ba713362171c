"""What the lint of regular expressions refuses, and what it lets pass."""

from __future__ import annotations

import re

import pytest

from tests.processor_bounds import processor_time
from tests.reviewed_patterns import REVIEWED
from tests.slow_patterns import problem_of

SLOW = [
    (r"(a+)+b", {"match"}, "a"),
    (r"(?:\s*a?)*b", {"match"}, " "),
    (r"\s*:?\s*x", {"match"}, " "),
    (r".*,.*,.*x", {"match"}, ","),
    (r"(?:\w\w|\d\d)*x", {"match"}, "1"),
    (r'"[^"\\]*(?:\\.[^"\\]*)*.*x', {"match"}, '"a'),
    (r"\w+Error", {"search"}, "a"),
    (r"\s+$", {"sub"}, " "),
    (r"<.*>", {"search"}, "<"),
    (r"\{\{\s*[A-Za-z_]\w*\s*(\|[^}]*)?\}\}", {"search"}, "{{a|"),
    (r"(?s)<([\w.\- /]+)>\n<d>.*?<v>\n(.*?)\n</v>", {"findall"}, "<a>\n<d><v>\n"),
    (r"\bBID\b\s*[:=]?\s*(\d{1,15})", {"findall"}, "BID" + " " * 50),
]
LINEAR = [
    (r"a+b", {"match"}),
    (r"\w+\s+\w+", {"fullmatch"}),
    (r"\s*+:?\s*+x", {"match"}),
    (r"<[^<>]*>", {"search"}),
    (r"<.{0,100}>", {"search"}),
    (r"\b\w+Error", {"search"}),
    (r"(?<![\w-])[\w-]+:", {"search"}),
    (r"(?<=[?&])[^=&?]*+=", {"search"}),
    (r"^\s+x", {"search"}),
    (r"[ \t\r\n]*", {"match", "search"}),
    (r"(?:\\.|[^\\])*x", {"match"}),
    (r'(?:[\w-]+|"[^"]*")(?:\.(?:[\w-]+|"[^"]*"))*=', {"match"}),
    (r"\d+$", {"match"}),
    (r"one|two|three{1,3}", {"search"}),
]


@pytest.mark.parametrize(("pattern", "methods", "filling"), SLOW)
def test_a_slow_pattern_is_refused(pattern: str, methods: set[str], filling: str) -> None:
    assert problem_of(pattern, methods)


@pytest.mark.parametrize(("pattern", "methods"), LINEAR)
def test_a_linear_pattern_is_let_pass(pattern: str, methods: set[str]) -> None:
    assert problem_of(pattern, methods) == ""
    with processor_time():
        for filling in ("a", " ", "<", '"', "1", "-a", "\\", "Error", "a."):
            for method in methods:
                getattr(re.compile(pattern), method)(filling * 100_000)


def test_a_review_says_why_a_pattern_is_linear() -> None:
    assert all(len(why.split()) >= 5 for why in REVIEWED.values())
