"""Output: results on stdout, everything else on stderr; `--json` is JSON alone."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from cli.options import OPTIONS
from libs.contracts.outside_texts import lines_of

CELL_CHARACTERS_MAX = 60

# Characters that steer a terminal or turn the order of a text around; names, and what agents say,
# come from others.
UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

type Column = str | Callable[[Any], Any]


def printable(text: str, stream: TextIO) -> str:
    """The text without what would steer the terminal, if the stream is one."""
    return UNSAFE.sub("", text) if stream.isatty() else text


def write(text: str, *, end: str = "\n") -> None:
    """A part of a result: on stdout at once, and harmless to a terminal."""
    print(printable(text, sys.stdout), end=end, flush=not end)


def columns(*fields: str, **others: Column) -> dict[str, Column]:
    """The columns of a table by their headings: fields of documents by their own names, then others
    by the heading, with blanks for underscores."""
    named = {**dict.fromkeys(fields), **others}
    return {name.replace("_", " "): column or name for name, column in named.items()}


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
        for line in cells:
            write(line[0])
        return
    table = [[heading.upper() for heading in columns], *cells]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        write("  ".join(padded).rstrip())


def show(document: Any, fields: Mapping[str, Column] | None = None) -> None:
    """One document, a field on each line, or with --json as the server sent it."""
    if OPTIONS.json or fields is None:
        show_json(document)
        return
    shown = {heading: _value(document, column) for heading, column in fields.items()}
    width = max(map(len, shown), default=0)
    for heading, value in shown.items():
        if value not in (None, "", [], {}):
            lines = lines_of(value if isinstance(value, str) else _text(value)) or [""]
            write(f"{heading.ljust(width)}  {lines[0]}")
            for line in lines[1:]:
                write(f"{' ' * width}  {line}")


def show_made(document: Any) -> None:
    """Print the id of a new thing, for the next command, or with --json all of it."""
    if OPTIONS.json:
        show_json(document)
    else:
        write(document["id"])


def show_json(value: Any) -> None:
    """As JSON, and nothing else."""
    print(_json(value, indent=2))


def show_line(value: Any) -> None:
    """As JSON in one line, where documents come one after the other."""
    print(_json(value), flush=True)


def _json(value: Any, indent: int | None = None) -> str:
    """JSON that can be printed: where stdout has not all characters, they are escaped."""
    has_all = (sys.stdout.encoding or "utf-8").lower().replace("-", "").startswith("utf")
    return UNSAFE.sub(_escape, json.dumps(value, indent=indent, ensure_ascii=not has_all))


def show_text(text: str) -> None:
    """A result that is a text: on stdout, and with --json a JSON string."""
    show_json(text) if OPTIONS.json else write(text)


def show_lines(lines: Iterable[str], document: Any) -> None:
    """A result in lines for people, or with --json the document that says the same."""
    if OPTIONS.json:
        show_json(document)
        return
    for line in lines:
        write(line)


def say(text: str, *, dim: bool = False) -> None:
    """Print a result in words or a hint: on stderr, and not with --quiet."""
    if not OPTIONS.quiet:
        shown = printable(text, sys.stderr)
        if dim and sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
            shown = f"\x1b[2m{shown}\x1b[0m"
        _note(shown)


def warn(text: str) -> None:
    """Print a problem after which the command goes on: on stderr, also with --quiet."""
    _note(printable(text, sys.stderr))


def _note(text: str, *, end: str = "\n") -> None:
    """Print on stderr, behind what was printed on stdout before, where both are one pipe."""
    sys.stdout.flush()
    print(text, end=end, file=sys.stderr, flush=True)


@contextmanager
def progress(title: str, total: int | None = None) -> Iterator[Callable[..., None]]:
    """A bar on stderr, where that is a terminal. Gives a function: how many are done now, and of
    how many, if that has become known."""
    if OPTIONS.quiet or not sys.stderr.isatty():
        yield lambda done, total=None: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task(title, total=total)
        yield lambda done, total=None: bars.update(bar, completed=done, total=total)


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is deleted. Raises CommandError if nobody can be asked, or says no."""
    from cli.exit_codes import CommandError, ExitCode

    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError(f"{question} Say so with --yes", ExitCode.USAGE)
    from cli.typed_lines import discard_typed

    discard_typed(sys.stdin.fileno())  # a line that was typed ahead answers no question
    asked = printable(question, sys.stderr)
    _note(f"{asked} [y/N] ", end="")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandError("Nothing was changed")


def _value(document: Any, column: Column) -> Any:
    return document.get(column) if isinstance(column, str) else column(document)


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


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
