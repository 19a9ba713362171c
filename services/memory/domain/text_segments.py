"""A text as it comes, in segments of whole lines that can be kept and read one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

SEGMENT_CHARS_MAX = 64 * 1024


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a text; lines count from 1. Only a line of more than `SEGMENT_CHARS_MAX` characters
    goes on in the next segment."""

    number: int
    first_line: int
    last_line: int
    text: str


class TextSegments:
    """Cuts a text that comes little by little. Line ends become one kind, and what no text has is
    left out."""

    def __init__(self) -> None:
        self.rest = ""
        self.number = 0
        self.line = 1
        self.chars = 0
        self.ended_line = False

    @property
    def lines(self) -> int:
        """The number of lines, when the end has come."""
        return self.line - self.ended_line if self.chars else 0

    def feed(self, text: str) -> Iterator[Segment]:
        """The segments that are whole by now."""
        self.rest += text.replace("\x00", "")
        while len(self.rest) > SEGMENT_CHARS_MAX:
            cut = self.rest.rfind("\n", 0, SEGMENT_CHARS_MAX) + 1 or SEGMENT_CHARS_MAX
            if cut == SEGMENT_CHARS_MAX and self.rest[cut - 1] == "\r":
                cut -= 1  # its other half comes
            segment, self.rest = self.rest[:cut], self.rest[cut:]
            yield self.segment(segment)

    def end(self) -> Iterator[Segment]:
        """The last segment, if there is one."""
        if self.rest:
            segment, self.rest = self.rest, ""
            yield self.segment(segment)

    def segment(self, raw: str) -> Segment:
        """Return the next segment of the text."""
        text = raw.replace("\r\n", "\n").replace("\r", "\n")
        text = text.encode("utf-8", "replace").decode()
        breaks = text.count("\n")
        self.ended_line = text.endswith("\n")
        first = self.line
        self.line += breaks
        self.chars += len(text)
        last = self.line - 1 if self.ended_line else self.line
        number, self.number = self.number, self.number + 1
        return Segment(number, first, last, text)
