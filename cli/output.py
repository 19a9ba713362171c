"""What is printed: results on stdout, everything else on stderr; `--json` is JSON alone."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from cli.options import OPTIONS

CELL_CHARACTERS_MAX = 60

type Column = str | Callable[[Any], Any]


def show_rows(rows: Iterable[Any], columns: Mapping[str, Column]) -> None:
    """A table, or with --json the list as the server sent it.

    Args:
        rows: JSON documents.
        columns: for each heading the field that it shows, or a function of the document.
    """
    rows = list(rows)
    if OPTIONS.json:
        show_json(rows)
        return
    cells = [[_cell(_value(row, column)) for column in columns.values()] for row in rows]
    if OPTIONS.quiet:  # the first column alone, for scripts
        print(*(line[0] for line in cells), sep="\n", end="\n" if cells else "")
        return
    table = [[heading.upper() for heading in columns], *cells]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        )


def show(document: Any, fields: Mapping[str, Column] | None = None) -> None:
    """One document, a field on each line, or with --json as the server sent it."""
    if OPTIONS.json or fields is None:
        show_json(document)
        return
    shown = {heading: _value(document, column) for heading, column in fields.items()}
    width = max(map(len, shown), default=0)
    for heading, value in shown.items():
        if value not in (None, "", [], {}):
            lines = (value if isinstance(value, str) else _text(value)).splitlines() or [""]
            print(f"{heading.ljust(width)}  {lines[0]}")
            for line in lines[1:]:
                print(" " * width, line, sep="  ")


def show_json(value: Any) -> None:
    """As JSON, and nothing else."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def show_text(text: str) -> None:
    """A result that is a text: on stdout, and with --json a JSON string."""
    show_json(text) if OPTIONS.json else print(text)


def say(text: str) -> None:
    """What was done, or what one may do next: on stderr, and not with --quiet."""
    if not OPTIONS.quiet:
        print(text, file=sys.stderr)


@contextmanager
def progress(title: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, where that is a terminal. Gives a function: how many are done now."""
    if OPTIONS.quiet or not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task(title, total=total)
        yield lambda done: bars.update(bar, completed=done)


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is deleted. Raises CommandError if nobody can be asked, or says no."""
    from cli.exit_codes import CommandError, ExitCode

    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError(f"{question} Say so with --yes", ExitCode.USAGE)
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandError("Nothing was changed")


def _value(document: Any, column: Column) -> Any:
    return document.get(column) if isinstance(column, str) else column(document)


def _cell(value: Any) -> str:
    text = " ".join(_text(value).split())
    return text if len(text) <= CELL_CHARACTERS_MAX else text[: CELL_CHARACTERS_MAX - 1] + "…"


def _text(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case str():
            return value
        case Sequence() if all(isinstance(entry, str | int) for entry in value):
            return ", ".join(map(str, value))
        case dict() | list():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return str(value)
