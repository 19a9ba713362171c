"""Activity of a process, as seen by somebody who looks now and then, and the time that is its own.

The wall clock does not tell a slow process from an ill one. On a machine that grants a process 3 %
of a core, loading its modules takes a minute and nothing is wrong. So what a process owes is
measured in its own time: the seconds that it was on a processor, and those in which it was idle,
wanting neither a processor nor a disk. The time in which it waited for one of these is not its own.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

LOOK_GAP_SECONDS_MAX = (
    10.0  # who did not look for longer stood still, and knows nothing of that time
)
LOOK_AGAIN_SECONDS = 1.0
DISK_SECONDS_MAX = 300.0  # who waits longer for a disk and computes nothing is idle: it may be gone
POLL_SECONDS, POLL_SECONDS_MAX, PAUSE_SHARE = 0.01, 0.5, 0.05
WORKING_SHARE_MIN = 0.02  # of a processor: less than this is only the upkeep of an idle process
# The letters of Linux for what psutil calls the same, where there is no /proc.
LETTERS = {psutil.STATUS_RUNNING: "R", psutil.STATUS_DISK_SLEEP: "D", psutil.STATUS_STOPPED: "T"}
WAITS_FOR, PROCESSOR, DISK = "waits for", "a processor", "a disk"
STARTS, IDLE, FROZEN, GONE = "starts", "is idle", "is stopped by a signal", "is not there"


@dataclass(frozen=True, slots=True)
class OwnTime:
    """The seconds that a process was on a processor, and those that it was idle; as a bound, the
    most of each. A process that was given neither has had no time of its own."""

    processor_seconds: float = 0.0
    idle_seconds: float = 0.0

    def __add__(self, other: OwnTime) -> OwnTime:
        return OwnTime(
            self.processor_seconds + other.processor_seconds,
            self.idle_seconds + other.idle_seconds,
        )

    def __mul__(self, factor: float) -> OwnTime:
        return OwnTime(self.processor_seconds * factor, self.idle_seconds * factor)

    def __str__(self) -> str:
        return f"{self.processor_seconds:g} s on a processor, or {self.idle_seconds:g} s idle"

    def exceeds(self, bound: OwnTime) -> bool:
        """Whether it is more than the bound allows, on a processor or idle."""
        return (
            self.processor_seconds > bound.processor_seconds
            or self.idle_seconds > bound.idle_seconds
        )


@dataclass(frozen=True, slots=True)
class ProcessSample:
    """The activity of a process, or of several as one, at a look."""

    pid: int
    at: float
    processor_seconds: float
    own_seconds: float  # of these, those of the process itself
    switches: int  # how often it was put on a processor or taken off
    wants: str  # PROCESSOR, DISK, or nothing
    is_stopped: bool  # by a signal

    def ran_since(self, before: ProcessSample) -> bool:
        """Whether it was on a processor since an earlier look, however shortly."""
        seen = (before.own_seconds, before.switches)
        return (self.own_seconds, self.switches) != seen


class Activity:
    """Looks at a process again and again. With `has_children` its descendants belong to it, as
    those of Postgres do, which do its work."""

    def __init__(self, *, has_children: bool = False) -> None:
        self._has_children = has_children
        self._seen: ProcessSample | None = None
        self.frozen_seconds = 0.0  # for how long it is stopped by a signal and has not run
        self._disk_seconds = 0.0  # for how long it waits for a disk and computes nothing
        self.doing = STARTS

    def look(self, pid: int | None) -> OwnTime:
        """The own time that the process had since the last look; none where that saw another."""
        before = self._seen
        now = self._seen = sample_process(pid, has_children=self._has_children)
        if now is None or before is None or before.pid != now.pid:
            self.frozen_seconds, self._disk_seconds = 0.0, 0.0
            self.doing = STARTS if now else GONE
            return OwnTime()
        seconds = now.at - before.at
        if seconds > LOOK_GAP_SECONDS_MAX:
            seconds = 0.0
        used = max(now.processor_seconds - before.processor_seconds, 0.0)
        ran, stopped = now.ran_since(before), now.is_stopped
        self.frozen_seconds = self.frozen_seconds + seconds if stopped and not ran else 0.0
        # `cpulimit` stops and continues a process all the time: that one is only slow.
        is_slowed = ran and (stopped or before.is_stopped)
        self.doing = describe(now, before, seconds, is_slowed=is_slowed)
        on_disk = self.doing == f"{WAITS_FOR} {DISK}"
        self._disk_seconds = self._disk_seconds + seconds if on_disk else 0.0
        if self._disk_seconds > DISK_SECONDS_MAX:
            self.doing = IDLE
            return OwnTime(used, seconds)
        is_idle = not (now.wants or before.wants or is_slowed)
        return OwnTime(used, seconds if is_idle else 0.0)

    @property
    def is_working(self) -> bool:
        """Whether it did something at the last look, or would if the machine let it."""
        return self.doing not in (IDLE, FROZEN, GONE)


class Allowance:
    """The own time that a process has for something, until it is called ill."""

    def __init__(self, bound: OwnTime, *, has_children: bool = False) -> None:
        self._bound = bound
        self._passed = OwnTime()
        self._activity = Activity(has_children=has_children)
        self._next_look = 0.0

    def is_spent(self, pid: int | None) -> bool:
        """Whether the process has had more time than it may; to be asked again and again, as often
        as one likes."""
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + LOOK_AGAIN_SECONDS
            self._passed += self._activity.look(pid)
        return self._passed.exceeds(self._bound)


def poll_seconds(waited_seconds: float) -> float:
    """The seconds until the next look at something that comes soon or late: to look is work for
    those who are waited for."""
    return min(max(PAUSE_SHARE * waited_seconds, POLL_SECONDS), POLL_SECONDS_MAX)


def describe(now: ProcessSample, before: ProcessSample, seconds: float, *, is_slowed: bool) -> str:
    """The activity of a process, in words that follow its name."""
    if is_slowed:
        return "is slowed by signals"
    if now.is_stopped:
        return FROZEN
    if now.processor_seconds - before.processor_seconds > WORKING_SHARE_MIN * seconds:
        return "uses the processor"
    return f"{WAITS_FOR} {now.wants}" if now.wants and before.wants else IDLE


def sample_process(pid: int | None, *, has_children: bool = False) -> ProcessSample | None:
    """A process at this moment; None where there is none, or it cannot be looked at."""
    if pid is None:
        return None
    try:
        process = psutil.Process(pid)
        states, times = states_of(process), process.cpu_times()
        used = own = times.user + times.system
        switches = sum(process.num_ctx_switches())
        is_stopped = "T" in states
        if has_children:
            used += times.children_user + times.children_system  # of those that have ended
            for child in descendants_of(process):
                with contextlib.suppress(psutil.Error):
                    states |= states_of(child)
                    used += sum(child.cpu_times()[:2])
    except (psutil.Error, OSError):
        return None
    wants = PROCESSOR if "R" in states else DISK if "D" in states else ""
    return ProcessSample(pid, time.monotonic(), used, own, switches, wants, is_stopped)


def states_of(process: psutil.Process) -> set[str]:
    """The states of the threads of a process, as letters."""
    found = set()
    for stat in Path(f"/proc/{process.pid}/task").glob("*/stat"):
        with contextlib.suppress(OSError):
            found.add(stat.read_text().rpartition(")")[2].split()[0])
    return found or {LETTERS.get(process.status(), "S")}


def descendants_of(process: psutil.Process) -> list[psutil.Process]:
    """All that descend from a process. The kernel has a list of the children of each thread, and
    psutil looks at all processes."""
    lists = [*Path(f"/proc/{process.pid}/task").glob("*/children")]
    if not lists:
        return [*process.children(recursive=True)]
    found = []
    for path in lists:
        with contextlib.suppress(OSError, psutil.Error):
            for pid in path.read_text().split():
                child = psutil.Process(int(pid))
                found += [child, *descendants_of(child)]
    return found
