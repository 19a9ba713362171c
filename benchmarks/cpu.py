"""CPU seconds of the server's processes, all of them, and nobody else's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil

from deploy.embedded.state import read_state

QUIET_SHARE_OF_A_CORE = 0.1
QUIET_LOOK_SECONDS = 0.2
QUIET_WAIT_SECONDS_MAX = 3.0

Roots = Callable[[], Mapping[str, int]]


class CpuMeter:
    """Reads what process trees have used so far, in seconds by the name of the tree's root.

    A process that ended is not lost: its parent's times hold those of the children it reaped.
    """

    def __init__(self, roots: Roots) -> None:
        self.roots = roots

    def read(self) -> dict[str, float]:
        """CPU seconds by name. A process in two trees counts in the one that is named first."""
        seconds: dict[str, float] = {}
        seen: set[int] = set()
        for name, pid in self.roots().items():
            fresh = [process for process in tree(pid) if process.pid not in seen]
            seen.update(process.pid for process in fresh)
            seconds[name] = sum(map(used_seconds, fresh))
        return seconds

    async def wait_quiet(self) -> None:
        """Return when the servers have hardly anything left to do, or when we tire of waiting."""
        deadline = time.monotonic() + QUIET_WAIT_SECONDS_MAX
        before = sum(self.read().values())
        while time.monotonic() < deadline:
            await asyncio.sleep(QUIET_LOOK_SECONDS)
            now = sum(self.read().values())
            if now - before <= QUIET_SHARE_OF_A_CORE * QUIET_LOOK_SECONDS:
                return
            before = now


def tree(pid: int) -> list[psutil.Process]:
    """A process and all below it; empty when it is gone."""
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.Error:
        return []


def used_seconds(process: psutil.Process) -> float:
    """What it and the children that it reaped have used; 0 when it is gone."""
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system + times.children_user + times.children_system)


def roots_of_home(home: Path) -> Roots:
    """The parts of an embedded instance, then its supervisor, as its state file names them."""

    def roots() -> dict[str, int]:
        state = read_state(home)
        if state is None:
            return {}
        found = {name: part.mark.pid for name, part in state.parts.items() if part.mark}
        if state.supervisor:
            found["supervisor"] = state.supervisor.pid
        return found

    return roots


def roots_of_pids(pids: list[int]) -> Roots:
    """The processes that a person named."""
    named = {f"{psutil.Process(pid).name()} {pid}": pid for pid in pids}
    return lambda: named
