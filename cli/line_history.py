"""The lines that somebody typed, kept for the next session."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

LINES_MAX = 1_000


def path(environment: Mapping[str, str] = os.environ) -> Path:
    """`chat_history` in the user's state folder."""
    folder = environment.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(folder) / "heeler" / "chat_history"


@contextmanager
def line_history(is_interactive: bool) -> Iterator[None]:
    """Arrow keys and lines of earlier sessions, where somebody types and readline is there."""
    try:
        import readline
    except ImportError:
        is_interactive = False
    if not is_interactive:
        yield
        return
    file = path()
    with suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.touch(mode=0o600)
        readline.read_history_file(file)
    readline.set_history_length(LINES_MAX)
    try:
        yield
    finally:
        with suppress(OSError):
            readline.write_history_file(file)
