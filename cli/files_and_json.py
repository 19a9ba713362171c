"""Texts and JSON that people give a command: as a file, on stdin, or as they typed it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from cli.exit_codes import CommandError, ExitCode
from libs.contracts.outside_texts import decode_text

STDIN = "-"


def text_of(file: Path) -> str:
    """The content of a text file; `-` is stdin. Raises CommandError."""
    if str(file) == STDIN:
        return stdin_text()
    try:
        return decode_text(file.read_bytes())
    except UnicodeDecodeError as problem:
        raise CommandError(f"{file} is no text in UTF-8: {problem.reason}") from problem
    except OSError as problem:
        raise unreadable(file, problem) from problem


def stdin_text() -> str:
    """All of stdin, which is a text in UTF-8 whatever the terminal has. Raises CommandError."""
    try:
        return decode_text(sys.stdin.buffer.read())
    except UnicodeDecodeError as problem:
        raise CommandError(f"stdin is no text in UTF-8: {problem.reason}") from problem


def unreadable(file: Path, problem: OSError) -> CommandError:
    """That a file cannot be read, and why."""
    missing = isinstance(problem, FileNotFoundError)
    code = ExitCode.NOT_FOUND if missing else ExitCode.FAILED
    return CommandError(f"Cannot read {file}: {problem.strerror}", code)


def json_or_text(text: str) -> Any:
    """The value of a text that is JSON; any other text as it is."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def json_object(text: str, what: str) -> dict[str, Any]:
    """A JSON object that somebody typed; `-` is stdin. Raises CommandError."""
    if text == STDIN:
        text = stdin_text()
    try:
        value = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as problem:
        raise CommandError(f"{what} are no JSON: {problem}", ExitCode.USAGE) from problem
    if not isinstance(value, dict):
        raise CommandError(f"{what} must be a JSON object, as {{}}", ExitCode.USAGE)
    return value


def pairs(values: list[str] | None, what: str) -> dict[str, str]:
    """`NAME=VALUE` as people say it, again and again. Raises CommandError."""
    found = {}
    for value in values or []:
        name, equals, given = value.partition("=")
        if not (name and equals):
            raise CommandError(f"{what} is NAME=VALUE, not '{value}'", ExitCode.USAGE)
        found[name] = given
    return found
