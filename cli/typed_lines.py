"""Text typed at a terminal that has not been read yet."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator

BYTES_MAX = 1 << 20  # so much is kept of what was typed
QUIET_TENTHS = 1  # so long nothing comes, in tenths of a second: what was pasted is all there
QUIET_SECONDS = QUIET_TENTHS / 10


def discard_typed(terminal: int) -> str:
    """Read away all that was typed, also a line that has no end yet, and return its beginning. It
    takes a tenth of a second; where there are no terminals of this kind, nothing is discarded."""
    try:
        import termios
    except ImportError:
        return ""
    before = termios.tcgetattr(terminal)
    changed = termios.tcgetattr(terminal)
    changed[3] &= ~(termios.ICANON | termios.ECHO)
    changed[6][termios.VMIN], changed[6][termios.VTIME] = 0, QUIET_TENTHS
    typed = bytearray()
    termios.tcsetattr(terminal, termios.TCSANOW, changed)
    try:
        while part := os.read(terminal, 1 << 16):
            typed += part[: BYTES_MAX - len(typed)]
    finally:
        termios.tcsetattr(terminal, termios.TCSANOW, before)
    return typed.decode("utf-8", "replace").strip("\r\n")


def has_typed_line() -> bool:
    """Whether a line was typed that nothing has read yet."""
    return bool(select.select([sys.stdin], [], [], 0)[0])


def pasted_lines() -> Iterator[str]:
    """The lines that come at once behind one that was read: where the terminal does not mark a
    paste, its lines are those that nobody can have typed so soon."""
    while select.select([sys.stdin], [], [], QUIET_SECONDS)[0]:
        try:
            yield input()
        except EOFError:
            return
