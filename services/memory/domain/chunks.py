"""The passages that a text is embedded in: whole paragraphs and lines as far as they fit."""

from __future__ import annotations

from dataclasses import dataclass

from services.memory.domain.text_segments import Segment

# What the embedded model reads of a text; estimated, as each model counts for itself.
CHUNK_TOKENS_MAX = 256
CHUNK_TOKENS_MIN = 32
BYTES_OF_A_TOKEN = 4
# So much of a chunk stands in the next one again, unless that begins with a heading.
OVERLAP_SHARE = 8


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage of a text, and the line that it begins in."""

    text: str
    line: int


def tokens_for(chunk_size: int | None) -> int:
    """The tokens of a chunk at most, where `chunk_size` are wanted."""
    return max(CHUNK_TOKENS_MIN, min(chunk_size or CHUNK_TOKENS_MAX, CHUNK_TOKENS_MAX))


def chunks_of(segment: Segment, tokens_max: int) -> list[Chunk]:
    """The chunks of a segment: the same each time. None of blank lines alone."""
    bytes_max = tokens_max * BYTES_OF_A_TOKEN
    packed = Packing(bytes_max)
    for number, line in enumerate(segment.text.split("\n"), start=segment.first_line):
        for part in parts_of(line, bytes_max):
            packed.add(part, number)
    packed.flush()
    return packed.chunks


class Packing:
    """Lines that become chunks."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.chunks: list[Chunk] = []
        self.lines: list[tuple[str, int]] = []
        self.size = 0
        self.fresh = False  # whether anything but what is repeated is in it
        self.body = False  # and whether anything but headings is

    def add(self, line: str, number: int) -> None:
        """Put a line into the chunk, or into the next one where it begins something new."""
        size = len(line.encode()) + 1
        heading = line.startswith("#")
        new = heading or (not line.strip() and self.size > self.bytes_max // 2)
        if self.lines and (self.size + size > self.bytes_max or (new and self.body)):
            repeated = [] if new else self.overlap(size)
            self.flush()
            self.lines = repeated
            self.size = sum(len(text.encode()) + 1 for text, _ in repeated)
        self.lines.append((line, number))
        self.size += size
        self.fresh = self.fresh or bool(line.strip())
        self.body = self.body or (bool(line.strip()) and not heading)

    def overlap(self, size: int) -> list[tuple[str, int]]:
        """The last lines, as far as they are repeated beside a line of this size."""
        room = min(self.bytes_max // OVERLAP_SHARE, self.bytes_max - size)
        kept: list[tuple[str, int]] = []
        for line in reversed(self.lines):
            room -= len(line[0].encode()) + 1
            if room < 0:
                break
            kept.insert(0, line)
        return kept

    def flush(self) -> None:
        """End the chunk that is being packed."""
        shown = [line for line in self.lines if line[0].strip()]
        if self.fresh and shown:
            text = "\n".join(text for text, _ in self.lines).strip("\n")
            self.chunks.append(Chunk(text, shown[0][1]))
        self.lines, self.size, self.fresh, self.body = [], 0, False, False


def parts_of(line: str, bytes_max: int) -> list[str]:
    """A line as it is, or in parts where it is too long: cut between words, if it has any."""
    if len(line) * 4 < bytes_max or len(line.encode()) < bytes_max:
        return [line]
    parts: list[str] = []
    room = bytes_max - 1
    raw = line.encode()
    while len(raw) > room:
        cut = raw.rfind(b" ", room // 2, room) + 1 or room
        while cut > 1 and raw[cut] & 0xC0 == 0x80:  # within a character
            cut -= 1
        parts.append(raw[:cut].decode())
        raw = raw[cut:]
    return [*parts, raw.decode()]
