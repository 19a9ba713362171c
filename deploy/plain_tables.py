"""Tables in plain text: what `rich` would draw, without its import, which takes longer than the
command that shows the table."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Sequence

GAP = "  "
RED, GREEN, YELLOW = 31, 32, 33


def print_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Collection[str] = (),
    colours: Sequence[int | None] = (),
) -> None:
    """Print rows below headings.

    Args:
        right: the headings of columns of numbers, which end at the same place.
        colours: for each row the colour of its second column, in a terminal.
    """
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    for number, row in enumerate([headings, *rows]):
        cells = [
            text.rjust(width) if heading in right else text.ljust(width)
            for text, width, heading in zip(row, widths, headings, strict=True)
        ]
        if number and number <= len(colours):
            cells[1] = colour_text(cells[1], colours[number - 1])
        print(GAP.join(cells).rstrip())


def colour_text(text: str, colour: int | None) -> str:
    """The text in this colour, where a person looks at it who wants colours."""
    if colour is None or not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{colour}m{text}\x1b[0m"
