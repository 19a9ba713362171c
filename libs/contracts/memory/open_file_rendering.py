"""View of an open file, as an agent sees it."""

from __future__ import annotations

SEGMENT_CHARS_MAX = 64 * 1024  # a text is kept in segments of at most so many
FILE_VIEW_CHARS_MOST = 1_000_000
FILES_LISTED_MAX = 500  # of an agent, those that are open first
CUT = (
    "...[TRUNCATED]\n# This is not the whole: open other lines of the file by `offset` and `length`"
    " of `open_files`, or look for them with `grep_files`."
)


def segments_for(chars_max: int) -> int:
    """The number of segments of a text that surely have so many characters, if it has them."""
    return 2 * min(chars_max, FILE_VIEW_CHARS_MOST) // SEGMENT_CHARS_MAX + 2


def from_line(segments: list[tuple[int, int, str]], first: int) -> str:
    """The text from a line on, of segments with their number and their first line."""
    text = "".join(text for _, _, text in segments)
    before = first - segments[0][1] if segments else 0
    return text.split("\n", before)[-1] if before > 0 else text


def visible_lines(
    text: str, lines: int | None, first_line: int | None, last_line: int | None, chars_max: int
) -> str:
    """The shown part of a text that begins in its first shown line: a heading with the line
    numbers, then each line with its number, up to so many characters."""
    if lines is None:
        return "[The file is not read yet, or cannot be: it has no text to show]"
    first = first_line or 1
    if first_line is None:
        place = "file start"
    elif last_line is None:
        place = f"lines {first} to end"
    else:
        place = f"lines {first} to {min(last_line, lines)}"
    shown = [f"[Viewing {place} (out of {lines} lines)]"]
    for number, line in enumerate(text.removesuffix("\n").split("\n"), start=first):
        if last_line is not None and number > last_line:
            break
        shown.append(f"{number}: {line}")
    value = "\n".join(shown)
    if len(value) <= chars_max:
        return value
    return value[: max(chars_max - len(CUT), 0)] + CUT
