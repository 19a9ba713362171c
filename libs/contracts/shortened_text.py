"""Texts within a limit, which say in V1's words how long they were."""

from __future__ import annotations

import re

NOTE = (
    "... [NOTE: function output was truncated since it exceeded the character limit"
    " ({chars} > {limit})]"
)
NOTE_CHARS_MAX = 150
EARLIER_NOTE = re.compile(
    re.escape(NOTE).replace(r"\{chars\}", r"(\d{1,15})").replace(r"\{limit\}", r"\d{1,15}") + r"\Z"
)


def cut(text: str, chars_max: int) -> str:
    """A text within a limit, not counting the note at the end of a longer one. A text that was cut
    before is cut as if it was still whole, so that there is one note, with the true length."""
    if len(text) <= chars_max:
        return text
    chars, whole_chars = len(text), len(text)
    earlier = EARLIER_NOTE.search(text, max(0, len(text) - NOTE_CHARS_MAX))
    if earlier is not None:
        chars, whole_chars = earlier.start(), int(earlier[1])
    if chars <= chars_max:
        return text
    return text[:chars_max] + NOTE.format(chars=whole_chars, limit=chars_max)
