"""What an agent sees of its folders, and how lines of files are found."""

from __future__ import annotations

import re
import time
from bisect import bisect_right
from itertools import accumulate
from random import Random
from typing import Any

import pytest

from libs.contracts.memory.open_file_rendering import CUT, from_line, visible_lines
from services.agent.adapters.file_regex_search import (
    LINE_CHARS_MAX,
    LOOKED_AT_BYTES,
    MATCHES_MAX,
    BadPattern,
    expression,
    matches_in,
    matching_files,
)
from services.agent.domain.agents.attached_folders import (
    AttachedFile,
    AttachedFolder,
    limits_of,
    rendered_directories,
)
from tests.contract.examples import CONFIG

OPEN = AttachedFile("file-1", "source-1", "kit/plan.txt", 3, True, 2, 3, "two\nthree\n")
CLOSED = AttachedFile("file-2", "source-1", "kit/<odd>.txt", 9)
KIT = AttachedFolder("source-1", "kit", "About <b>", None, [OPEN, CLOSED], unlisted=4)


def test_a_prompt_shows_folders_and_the_lines_of_open_files() -> None:
    _, chars = limits_of(CONFIG)
    assert rendered_directories([], CONFIG) == ""
    assert rendered_directories([KIT], CONFIG).split("\n") == [
        "<directories>",
        "<file_limits>",
        "- current_files_open=1",
        f"- max_files_open={limits_of(CONFIG)[0]}",
        "</file_limits>",
        '<directory name="kit">',
        "<description>About &lt;b></description>",
        '<file status="open" name="kit/plan.txt">',
        "<metadata>",
        "- read_only=true",
        "- chars_current=55",
        f"- chars_limit={chars}",
        "</metadata>",
        "<value>",
        "[Viewing lines 2 to 3 (out of 3 lines)]",
        "2: two",
        "3: three",
        "</value>",
        "</file>",
        '<file status="closed" name="kit/&#60;odd&#62;.txt">',
        "<metadata>",
        "- read_only=true",
        "- chars_current=0",
        f"- chars_limit={chars}",
        "</metadata>",
        "</file>",
        "(and 4 more files, which the file tools find by their text)",
        "</directory>",
        "</directories>",
    ]


@pytest.mark.parametrize(
    ("window", "files"), [(8_000, 3), (32_000, 5), (200_000, 10), (1_000_000, 15)]
)
def test_limits_scale_with_the_context_window(window: int, files: int) -> None:
    llm = CONFIG.llm_config.model_copy(update={"context_window": window})
    assert limits_of(CONFIG.model_copy(update={"llm_config": llm}))[0] == files


def test_a_file_is_shown_from_a_line_on_and_up_to_a_number_of_characters() -> None:
    pieces = [(0, 1, "a\nb\n"), (1, 3, "c\nd\n")]
    assert from_line(pieces, 3) == "c\nd\n"
    assert from_line(pieces, 1) == "a\nb\nc\nd\n"
    assert visible_lines("c\nd\n", 4, 3, None, 100).split("\n") == [
        "[Viewing lines 3 to end (out of 4 lines)]",
        "3: c",
        "4: d",
    ]
    cut = visible_lines("x" * 1_000, 1, None, None, 400)
    assert len(cut) == 400
    assert cut.endswith(CUT)
    assert "not read yet" in visible_lines("", None, None, None, 400)


def test_lines_are_found_with_those_around_them() -> None:
    text = "One\ntea é and Tea\nThree\nfour\nTEA\n"
    found = matches_in("f", text, 11, expression("tea"), 1, MATCHES_MAX)
    assert [(match.line, match.shown) for match in found] == [
        (12, "  11: One\n> 12: tea é and Tea\n  13: Three"),
        (15, "  14: four\n> 15: TEA"),
    ]
    assert len(matches_in("f", "x\n" * 50, 1, expression("x*"), 0, 7)) == 7
    [long] = matches_in("f", "é" * 5_000, 1, expression("é$"), 0, 7)
    assert len(long.shown) < LINE_CHARS_MAX + 10


class Watched:
    """An expression that knows how much it has looked at."""

    def __init__(self, pattern: str) -> None:
        self.wanted = expression(pattern)
        self.bytes = 0

    def search(self, data: bytes, start: int, end: int) -> Any:
        self.bytes += end - start
        return self.wanted.search(data, start, end)


def test_an_expression_that_goes_over_all_lines_does_not_look_at_all_from_each() -> None:
    """It took minutes, in a thread that nobody can end."""
    text = "apple pie with words\n" * 50_000
    wanted = Watched("(?s)a(.*Z)?")
    assert len(matches_in("f", text, 1, wanted, 0, MATCHES_MAX)) == MATCHES_MAX
    assert wanted.bytes <= MATCHES_MAX * (LOOKED_AT_BYTES + 100)
    nothing = Watched("(?s)Z.*")
    assert matches_in("f", text, 1, nothing, 0, MATCHES_MAX) == []
    assert nothing.bytes < 1.1 * len(text)


@pytest.mark.parametrize("pattern", ["^$", "^b", "c$", "c\nb", "^a{9,}$"])
def test_every_line_that_fits_is_found_wherever_it_stands(pattern: str) -> None:
    kinds = ["", "bc", "aaa", "cb", "a" * 700, "a" * 9_500]
    lines = Random(7).choices(kinds, [3, 3, 3, 3, 3, 0.1], k=800)
    text = "\n".join(lines)
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    hits = [match.start() for match in re.finditer(pattern, text, re.MULTILINE)]
    found = [match.line for match in matches_in("f", text, 1, expression(pattern), 0, MATCHES_MAX)]
    assert found == sorted({bisect_right(starts, hit) for hit in hits}) != []


@pytest.mark.parametrize(
    ("pattern", "words"),
    [("(", "missing )"), ("(?=a)", "look-around"), ("a" * 1_001, "1000 characters")],
    ids=["open", "look-around", "long"],
)
def test_an_expression_that_cannot_be_used_says_why(pattern: str, words: str) -> None:
    with pytest.raises(BadPattern, match=words.replace(")", r"\)")):
        expression(pattern)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(.*)(.*)(.*)(.*)(.*)[^x]q", "(x+x+)+y"])
def test_no_expression_explodes(pattern: str) -> None:
    since = time.monotonic()
    text = ("a" * 60 + "!\n") * 5_000
    assert matches_in("f", text, 1, expression(pattern), 0, MATCHES_MAX) == []
    assert time.monotonic() - since < 5


def test_files_are_chosen_by_a_pattern_of_their_names() -> None:
    files = [AttachedFile(str(n), "s", name, 1) for n, name in enumerate(("d/a.md", "d/b.TXT"))]
    assert matching_files(files, "") == files
    assert [file.name for file in matching_files(files, "*.txt")] == ["d/b.TXT"]
    assert [file.name for file in matching_files(files, "d/a*")] == ["d/a.md"]
    assert [file.name for file in matching_files(files, r"\.md$")] == ["d/a.md"]
    with pytest.raises(BadPattern):
        matching_files(files, "(")
