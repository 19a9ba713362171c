"""Which scripted servers over pipes a process has started, and whether any of them lives."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import psutil


def programs_of(pid: int) -> set[psutil.Process]:
    """The scripted servers below a process."""
    found: set[psutil.Process] = set()
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if {"--stdio"} & set(child.cmdline()):
                    found.add(child)
    return found


def living(programs: Iterable[psutil.Process]) -> set[psutil.Process]:
    """Those that run, and are no other process with the same number."""
    return {program for program in programs if lives(program)}


def lives(program: psutil.Process) -> bool:
    """Whether one runs; it may end while it is asked."""
    try:
        return program.is_running() and program.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
