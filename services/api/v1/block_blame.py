"""Which version of a text each of its lines came with, and how two texts differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher, unified_diff
from typing import Any

from pydantic import JsonValue
from pydantic_core import from_json

from libs.contracts.bus_messages import JsonObject

# What a comparison may cost: a diff in pairs of lines, a blame in steps, of which 70 million take a
# second at worst. Beyond it the lines between the first and the last change count as new.
PAIRS_MAX = 1_000_000
STEPS_MAX = 100_000_000
ALL_STEPS_MAX = 100_000_000


def blame_lines(texts: Sequence[str]) -> list[int]:
    """Of each line of the last of these texts, the index of the text that it came with. Each text
    followed the one before it; what was in the first came with it or before."""
    old = lines_of(texts[0]) if texts else []
    origins = [0] * len(old)
    steps_left = ALL_STEPS_MAX
    for origin, text in enumerate(texts[1:], start=1):
        new = lines_of(text)
        blocks, steps = matching(old, new, min(STEPS_MAX, steps_left))
        steps_left -= steps
        following = [origin] * len(new)
        for in_old, in_new, size in blocks:
            following[in_new : in_new + size] = origins[in_old : in_old + size]
        old, origins = new, following
    return origins


def page_of_blame(versions: bytes, after: int, limit: int) -> JsonObject:
    """A page of the lines of the newest of these versions, which come as JSON, the newest first:
    each line with what is known of the version it came with, and how many lines there are."""
    found: list[dict[str, Any]] = from_json(versions)[::-1]
    origins = blame_lines([version["value"] for version in found])
    known = [{key: version[key] for key in version if key != "value"} for version in found]
    texts = lines_of(found[-1]["value"]) if found else []
    shown = range(after, min(after + limit, len(texts)))
    lines: list[JsonValue] = [
        {"number": at + 1, "text": texts[at], **known[origins[at]]} for at in shown
    ]
    return {"lines_total": len(texts), "lines": lines}


def matching(
    old: list[str], new: list[str], steps_max: int
) -> tuple[list[tuple[int, int, int]], int]:
    """Where lines stayed (in the old, in the new, how many), and how many steps that took."""
    start = same_at_start(old, new)
    end = same_at_start(old[start:][::-1], new[start:][::-1])
    blocks = [(0, 0, start), (len(old) - end, len(new) - end, end)]
    old, new = old[start : len(old) - end], new[start : len(new) - end]
    steps = steps_of(old, new)
    if steps > steps_max:
        return blocks, 0
    found = SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks() if steps else []
    blocks += [(match.a + start, match.b + start, match.size) for match in found]
    return blocks, steps


def same_at_start(old: list[str], new: list[str]) -> int:
    """The number of equal lines before the first that differs. Found by halving, since lists are
    compared far faster than the lines of a loop."""
    same, most = 0, min(len(old), len(new))
    while same < most:
        half = same + (most - same + 1) // 2
        if old[same:half] == new[same:half]:
            same = half
        else:
            most = half - 1
    return same


def steps_of(old: list[str], new: list[str]) -> int:
    """The most steps that finding the lines that stayed takes: for each block of lines that is
    found, all pairs of equal lines are looked at; a thousand empty lines make a million."""
    times = Counter(old)
    equal = sum(times[line] for line in new)
    return (equal + len(old) + len(new)) * min(equal, len(old), len(new))


def diff(before: str, after: str, name_before: str, name_after: str) -> str:
    """The change of a text as a unified diff; empty for none. Where comparing all lines would cost
    too much, the part that differs is one change."""
    old, new = lines_of(before), lines_of(after)
    if old == new:
        return ""
    if len(old) * len(new) <= PAIRS_MAX:  # of what stands there often, little is compared here
        return "\n".join(unified_diff(old, new, name_before, name_after, lineterm=""))
    blocks, _ = matching(old, new, steps_max=0)
    (_, _, start), (old_end, new_end, _) = blocks[:2]
    head = [f"--- {name_before}", f"+++ {name_after}"]
    head.append(f"@@ -{start + 1},{old_end - start} +{start + 1},{new_end - start} @@")
    gone = [f"-{line}" for line in old[start:old_end]]
    return "\n".join([*head, *gone, *(f"+{line}" for line in new[start:new_end])])


def lines_of(text: str) -> list[str]:
    """The lines of a text; an empty one has none."""
    return text.split("\n") if text else []
