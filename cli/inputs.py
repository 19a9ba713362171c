"""A text that may stand in a file or come by stdin, and fields with values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cli import files_and_json
from cli.files_and_json import STDIN, pairs

TEXT_HELP = "a text, @FILE, or - for stdin (@@ is an @)"


def text_of(given: str) -> str:
    """The text itself, that of `@FILE`, or for `-` that of stdin. Raises CommandError."""
    if given.startswith("@@"):
        return given[1:]
    if given == STDIN:
        return files_and_json.text_of(Path(STDIN))
    return files_and_json.text_of(Path(given[1:])) if given.startswith("@") else given


def fields_of(given: list[str] | None, option: str = "--set") -> dict[str, Any]:
    """FIELD=VALUE for fields of the API: a value is JSON, and where it is none a text."""
    return {name: _json_or_text(value) for name, value in pairs(given, option).items()}


def _json_or_text(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value
