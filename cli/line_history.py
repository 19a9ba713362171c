"""The lines that somebody typed, kept for the next session."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from cli.user_folders import state_folder

LINES_MAX = 1_000


def path(environment: Mapping[str, str] = os.environ) -> Path:
    """`chat_history` in the user's state folder."""
    return state_folder(environment) / "chat_history"


@contextmanager
def line_history(is_interactive: bool) -> Iterator[bool]:
    """Arrow keys and lines of earlier sessions, where somebody types and readline is there. Gives
    whether a paste is one line, which may have line breaks: GNU readline has the terminal mark its
    beginning and its end."""
    try:
        import readline
    except ImportError:
        is_interactive = False
    if not is_interactive:
        yield False
        return
    is_gnu = "libedit" not in (readline.__doc__ or "")
    # `input` reads by readline alone where both are terminals.
    has_brackets = is_gnu and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    if has_brackets:
        readline.parse_and_bind("set enable-bracketed-paste on")
    file = path()
    with suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.touch(mode=0o600)
        readline.read_history_file(file)
    readline.set_history_length(LINES_MAX)
    try:
        yield has_brackets
    finally:
        with suppress(OSError):
            readline.write_history_file(file)
