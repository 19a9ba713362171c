"""What people give to a command: texts, files, and fields with values."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cli.exit_codes import CommandError, ExitCode

TEXT_BYTES_MAX = 16 << 20  # of one text; the server takes less of most

TEXT_HELP = "a text, @FILE, or - for stdin (@@ is an @)"


def text_of(given: str) -> str:
    """The text itself, that of `@FILE`, or for `-` that of stdin. Raises CommandError."""
    if given == "-":
        return _decode(sys.stdin.buffer.read(TEXT_BYTES_MAX + 1), "stdin")
    if given.startswith("@@") or not given.startswith("@"):
        return given.removeprefix("@") if given.startswith("@@") else given
    return read_text(Path(given[1:]))


def read_text(file: Path) -> str:
    """The text of a file, up to a limit. Raises CommandError."""
    try:
        with file.open("rb") as reading:
            return _decode(reading.read(TEXT_BYTES_MAX + 1), str(file))
    except OSError as problem:
        raise unreadable(file, problem) from problem


def unreadable(file: Path, problem: OSError) -> CommandError:
    """The error that says why a file cannot be read or written."""
    missing = isinstance(problem, FileNotFoundError)
    return CommandError(
        f"{file}: {problem.strerror}", ExitCode.NOT_FOUND if missing else ExitCode.FAILED
    )


def pairs_of(given: Iterable[str] | None, option: str) -> dict[str, str]:
    """NAME=VALUE of an option that may be repeated. Raises CommandError."""
    pairs = {}
    for pair in given or ():
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise CommandError(f"{option} {pair}: write {option} NAME=VALUE", ExitCode.USAGE)
        pairs[name] = value
    return pairs


def fields_of(given: Iterable[str] | None, option: str = "--set") -> dict[str, Any]:
    """FIELD=VALUE for fields of the API: a value is JSON, and where it is none a text."""
    return {name: _json_or_text(value) for name, value in pairs_of(given, option).items()}


def _json_or_text(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


def _decode(data: bytes, name: str) -> str:
    if len(data) > TEXT_BYTES_MAX:
        raise CommandError(f"{name} has more than {TEXT_BYTES_MAX >> 20} MiB", ExitCode.REFUSED)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise CommandError(f"{name} is no text in UTF-8", ExitCode.REFUSED) from problem
