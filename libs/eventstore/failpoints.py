"""Named points at which a test may kill the process, to prove that dying there loses nothing.

Off unless HEELER_FAILPOINTS names a folder. A test arms a point by making a file of its name there;
the first process that passes the point removes the file and dies as by `kill -9`. A poisoned point
(`kill.<point>` or `raise.<point>`) stays as it is: every process that meets the text of its file
there dies, or raises.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

FOLDER = "HEELER_FAILPOINTS"


def reach(point: str) -> None:
    """Die here, if a test armed this point."""
    if FOLDER not in os.environ:
        return
    try:
        (Path(os.environ[FOLDER]) / point).unlink()
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


class Poisoned(Exception):
    """A test wanted this to be raised."""


def reach_with(point: str, content: Callable[[], str]) -> None:
    """Die or raise here, if a test poisoned this point with a text that is in the content."""
    if FOLDER not in os.environ:
        return
    if poison(f"kill.{point}", content):
        os.kill(os.getpid(), signal.SIGKILL)
    if poison(f"raise.{point}", content):
        raise Poisoned(point)


def poison(file: str, content: Callable[[], str]) -> bool:
    """Whether a poison is there, and meets its content."""
    try:
        text = (Path(os.environ[FOLDER]) / file).read_text()
    except FileNotFoundError:
        return False
    return text in content()
