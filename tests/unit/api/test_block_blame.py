"""Each line of a text is blamed on the version that it came with, at a bounded cost."""

from __future__ import annotations

from itertools import takewhile

from hypothesis import given
from hypothesis import strategies as st

from services.api.v1.block_blame import (
    STEPS_MAX,
    blame_lines,
    diff,
    lines_of,
    matching,
    same_at_start,
)

LINES = st.lists(st.sampled_from("ab"), max_size=20)
TEXTS = st.lists(
    st.lists(st.sampled_from("abc"), max_size=6).map("\n".join), min_size=1, max_size=6
)


def blame(*texts: str) -> list[tuple[str, int]]:
    return list(zip(lines_of(texts[-1]) if texts else [], blame_lines(texts), strict=True))


def test_lines_keep_the_version_that_they_came_with() -> None:
    assert blame("a\nb", "a\nnew\nb", "a\nnew\nB") == [("a", 0), ("new", 1), ("B", 2)]


def test_lines_between_two_changes_of_a_long_text_keep_their_version() -> None:
    before = [f"line {number}" for number in range(3_000)]
    after = ["first", *before[1:-1], "last"]
    assert blame_lines(["\n".join(before), "\n".join(after)]) == [1, *[0] * 2_998, 1]


def test_a_line_that_comes_back_is_new() -> None:
    assert blame("a\nb", "a", "a\nb") == [("a", 0), ("b", 2)]


def test_an_empty_text_has_no_lines() -> None:
    assert blame() == blame("") == blame("a", "") == []


@given(TEXTS)
def test_the_lines_are_those_of_the_last_text_and_stood_in_that_of_their_version(
    texts: list[str],
) -> None:
    lines = blame(*texts)
    assert "\n".join(text for text, _ in lines) == texts[-1]
    assert all(text in texts[origin].split("\n") for text, origin in lines)


@given(LINES, LINES)
def test_the_lines_that_are_the_same_at_the_start_are_counted(
    old: list[str], new: list[str]
) -> None:
    expected = list(takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
    assert same_at_start(old, new) == len(expected)


def test_a_line_of_a_long_text_is_found_by_few_comparisons() -> None:
    """300,000 lines in ten versions took seconds, for each of which a line of Python was run."""
    compared = 0

    class Counted(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    old = [Counted(number) for number in range(4_096)]
    new = [*map(str, range(4_000)), "new", *map(str, range(4_001, 4_096))]
    assert same_at_start(old, new) == 4_000
    assert compared <= 2 * len(old)


def test_texts_that_have_nothing_in_common_cost_no_comparison() -> None:
    many = ["\n".join(f"{n}-{line}" for line in range(20_000)) for n in range(20)]
    assert set(blame_lines(many)) == {19}
    shown = diff(many[0], many[1], "before", "after").split("\n")
    assert shown[:3] == ["--- before", "+++ after", "@@ -1,20000 +1,20000 @@"]
    assert len(shown) == 40_003


def test_texts_of_many_equal_lines_cost_no_comparison() -> None:
    """It took ten seconds, and all other requests waited for half of them."""
    same, mixed = ["tea"] * 1_000, ["tea", "milk"] * 500
    assert matching(same[:-1], mixed, STEPS_MAX) == ([(0, 0, 1), (999, 1_000, 0)], 0)
    before = [*(f"line {n}" for n in range(500)), *[""] * 200]
    after = [*before[::2], *before[1::2]]
    blocks, steps = matching(before, after, STEPS_MAX)
    assert steps > 0
    assert sum(size for _, _, size in blocks) > 300, "ordinary texts are compared"


def test_a_change_in_the_middle_of_a_long_text_is_all_that_is_shown() -> None:
    before = [f"line {n}" for n in range(5_000)]
    after = [*before[:2_500], "new", *before[2_501:]]
    shown = diff("\n".join(before), "\n".join(after), "1", "2")
    assert shown.split("\n") == ["--- 1", "+++ 2", "@@ -2501,1 +2501,1 @@", "-line 2500", "+new"]


def test_a_difference_is_unified() -> None:
    assert diff("a\nb", "a\nc", "1", "2").split("\n") == [
        *("--- 1", "+++ 2", "@@ -1,2 +1,2 @@", " a", "-b", "+c")
    ]
    assert diff("a", "a", "1", "2") == ""
