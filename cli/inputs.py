"""A text that may stand in a file or come by stdin, and fields with values."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any, Literal

from cli import files_and_json
from cli.exit_codes import CommandError, ExitCode
from cli.files_and_json import STDIN, json_or_text, pairs

TEXT_HELP = "a text, @FILE, or - for stdin (@@ is an @)"


def text_of(given: str) -> str:
    """The text itself, that of `@FILE`, or for `-` that of stdin. Raises CommandError."""
    if given.startswith("@@"):
        return given[1:]
    if given == STDIN:
        return files_and_json.text_of(Path(STDIN))
    return files_and_json.text_of(Path(given[1:])) if given.startswith("@") else given


def fields_of(
    given: list[str] | None, body: Literal["CreateAgent", "UpdateAgent"], option: str = "--set"
) -> dict[str, Any]:
    """FIELD=VALUE for fields of a body of the API: a value is JSON, and where it is none a text.
    Raises CommandError for a field that the body does not have, which the API would ignore."""
    found = {name: json_or_text(value) for name, value in pairs(given, option).items()}
    for name in found:
        _check_field(name, body, option)
    return found


def _check_field(name: str, body: str, option: str) -> None:
    from libs.contracts.letta import all_request_bodies

    known = list(getattr(all_request_bodies, body).model_fields)
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        hint = f": did you mean '{close[0]}'?" if close else f". It has {', '.join(known)}"
        raise CommandError(f"{option}: an agent has no field '{name}'{hint}", ExitCode.USAGE)
