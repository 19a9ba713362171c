"""Which server of this machine is meant: its home, its port, and whether it runs in containers."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from typer import Option

from cli.options import OPTIONS


@contextmanager
def notes_apart() -> Iterator[None]:
    """Print what the launcher tells of its progress where --json and --quiet want it: to stderr, or
    nowhere."""
    with ExitStack() as stack:
        if OPTIONS.quiet:
            nowhere = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
            stack.enter_context(redirect_stdout(nowhere))
        elif OPTIONS.json:
            stack.enter_context(redirect_stdout(sys.stderr))
        yield


class Mode(StrEnum):
    """Where a server runs: as processes of this machine, or in containers."""

    EMBEDDED = "embedded"
    COMPOSE = "compose"


# A text: Typer would load Pydantic for a path, which takes longer than `status`.
Home = Annotated[
    str | None, Option("--home", metavar="FOLDER", help="The state folder (HEELER_HOME).")
]
ChosenMode = Annotated[Mode, Option("--mode", help="As processes, or in containers.")]


@contextmanager
def launch_variables(home: str | None, **values: object) -> Iterator[None]:
    """Set these variables for the launcher, which reads them, and for what it starts; those that
    are None stay as they are."""
    before = dict(os.environ)
    folder = str(Path(home).expanduser().absolute()) if home else None
    values["HEELER_HOME"] = folder
    given = {name: str(value) for name, value in values.items() if value is not None}
    os.environ.update(given)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
