"""Which version of a text each of its lines came with, and how two texts differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher, unified_diff
from itertools import pairwise

# What a comparison may cost, in pairs of lines; beyond it lines count as new.
PAIRS_MAX = 1_000_000
ALL_PAIRS_MAX = 10_000_000


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a text, and the index of the text that it came with."""

    text: str
    origin: int


def blamed(texts: Sequence[str]) -> list[Line]:
    """The lines of the last of these texts, each of which followed the one before it. What was in
    the first came with it or before."""
    if not texts:
        return []
    lines = [Line(text, 0) for text in lines_of(texts[0])]
    pairs_left = ALL_PAIRS_MAX
    for origin, (before, after) in enumerate(pairwise(texts), start=1):
        old, new = lines_of(before), lines_of(after)
        blocks, pairs = matching(old, new, min(PAIRS_MAX, pairs_left))
        pairs_left -= pairs
        following = [Line(text, origin) for text in new]
        for in_old, in_new, size in blocks:
            following[in_new : in_new + size] = lines[in_old : in_old + size]
        lines = following
    return lines


def matching(
    old: list[str], new: list[str], pairs_max: int
) -> tuple[list[tuple[int, int, int]], int]:
    """Where lines stayed (in the old, in the new, how many), and how many pairs were compared."""
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    blocks = [(0, 0, start), (len(old) - end, len(new) - end, end)]
    old, new = old[start : len(old) - end], new[start : len(new) - end]
    pairs = len(old) * len(new)
    if pairs > pairs_max:
        return blocks, 0
    found = SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks() if pairs else []
    blocks += [(one.a + start, one.b + start, one.size) for one in found]
    return blocks, pairs


def diff(before: str, after: str, name_before: str, name_after: str) -> str:
    """How a text changed, as a unified diff; empty for none. Where comparing all lines would cost
    too much, what differs is one change."""
    old, new = lines_of(before), lines_of(after)
    if old == new:
        return ""
    blocks, _ = matching(old, new, PAIRS_MAX)
    if len(old) * len(new) <= PAIRS_MAX:
        return "\n".join(unified_diff(old, new, name_before, name_after, lineterm=""))
    (_, _, start), (old_end, new_end, _) = blocks[:2]
    head = [f"--- {name_before}", f"+++ {name_after}"]
    head.append(f"@@ -{start + 1},{old_end - start} +{start + 1},{new_end - start} @@")
    gone = [f"-{line}" for line in old[start:old_end]]
    return "\n".join([*head, *gone, *(f"+{line}" for line in new[start:new_end])])


def lines_of(text: str) -> list[str]:
    """The lines of a text; an empty one has none."""
    return text.split("\n") if text else []
