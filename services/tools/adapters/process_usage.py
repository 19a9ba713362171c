"""Usage of a process and its descendants, read from /proc."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
# Where more are counted than any limit allows, counting on tells nothing.
PROCESSES_MAX = 4_096


@dataclass(slots=True)
class Usage:
    """Of a tree of processes: memory that is resident, CPU also of those that were waited for."""

    pids: list[int] = field(default_factory=list)
    threads: int = 0
    memory_bytes: int = 0
    cpu_seconds: float = 0.0


def usage_of(pid: int) -> Usage:
    """The usage of a process and its descendants now; nothing of those that ended meanwhile."""
    usage = Usage()
    waiting = [pid]
    while waiting and len(usage.pids) < PROCESSES_MAX:
        one = waiting.pop()
        try:
            add(usage, one)
            for thread in os.listdir(f"/proc/{one}/task"):
                waiting += children_of(one, thread)
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return usage


def add(usage: Usage, pid: int) -> None:
    """Add the usage of one process."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        # The name stands in parentheses and may contain anything.
        fields = file.read().rpartition(b")")[2].split()
    usage.pids.append(pid)
    usage.cpu_seconds += sum(map(int, fields[11:15])) / TICKS_A_SECOND
    usage.threads += int(fields[17])
    with open(f"/proc/{pid}/statm", "rb") as file:
        _, resident, shared = map(int, file.read().split()[:3])
    usage.memory_bytes += (resident - shared) * PAGE_BYTES


def children_of(pid: int, thread: str) -> list[int]:
    """The processes that one thread began, or was left with."""
    with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
        return [int(child) for child in file.read().split()]


def scratch_of(pid: int, path: str) -> tuple[int, int]:
    """The bytes and the files in a file system of a sandbox, as its first process sees it."""
    try:
        found = os.statvfs(f"/proc/{pid}/root{path}")
    except OSError:
        return 0, 0
    return (found.f_blocks - found.f_bfree) * found.f_frsize, found.f_files - found.f_ffree


def sockets_of(pid: int) -> int:
    """The sockets in the network of a process, those included that nobody has open any more but
    that hold something still."""
    try:
        with open(f"/proc/{pid}/net/sockstat", "rb") as file:
            return int(file.readline().split()[-1])
    except (OSError, ValueError, IndexError):
        return 0


def is_stopped(pid: int) -> bool:
    """Whether a process that was told to stop does nothing more, or is gone. One that waits in the
    kernel (D), as for a child of vfork that is frozen itself, stops before it goes on."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in (b"T", b"t", b"D", b"Z", b"X")
    except OSError:
        return True
