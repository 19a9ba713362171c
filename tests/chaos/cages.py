"""Control groups: so much memory and so much of a processor, for one process and no other."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
PERIOD_MICROSECONDS = 100_000
GONE_SECONDS_MAX = 5.0
KILLED_FIRST = "1000"
NUMBERS = count(1)

# Takes memory slowly, so that whoever shares the group with it is the one who asks for too much.
HOG = """
import sys, time
held = []
for _ in range(int(sys.argv[1])):
    held.append(bytearray(b"x" * 1048576))
    time.sleep(0.01)
time.sleep(600)
"""


def own_group(controller: str) -> Path | None:
    """The folder of this process's own group in version 1; None where it cannot be written."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            folder = ROOT / controller / path.lstrip("/")
            return folder if os.access(folder, os.W_OK) else None
    return None


@contextmanager
def cage(controller: str, limits: dict[str, int]) -> Iterator[Path | None]:
    """A group with these limits below our own, or None where the kernel or our rights have none.
    What is in it in the end goes back to our own group."""
    parent = own_group(controller)
    folder = parent / f"heeler-chaos-{os.getpid()}-{next(NUMBERS)}" if parent else None
    if folder is None:
        yield None
        return
    try:
        folder.mkdir()
        for name, value in limits.items():
            (folder / f"{controller}.{name}").write_text(str(value))
    except OSError:
        with contextlib.suppress(OSError):
            folder.rmdir()
        yield None
        return
    try:
        yield folder
    finally:
        assert parent
        for pid in (folder / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                (parent / "cgroup.procs").write_text(pid)
        folder.rmdir()


def put(folder: Path, pid: int) -> None:
    """Move a process into a group."""
    (folder / "cgroup.procs").write_text(str(pid))


@contextmanager
def hog(folder: Path, megabytes: int, victim: int) -> Iterator[None]:
    """Somebody in the group takes ever more memory, and another one is killed for it."""
    Path(f"/proc/{victim}/oom_score_adj").write_text(KILLED_FIRST)
    process = subprocess.Popen([sys.executable, "-c", HOG, str(megabytes)])
    try:
        put(folder, process.pid)
        yield
    finally:
        process.kill()
        process.wait()


@asynccontextmanager
async def slowed(pid: int, share: float) -> AsyncIterator[str]:
    """Give a process so much of one processor; says how. Where there are no control groups it
    sleeps and wakes at that rate."""
    quota = int(PERIOD_MICROSECONDS * share)
    limits = {"cfs_period_us": PERIOD_MICROSECONDS, "cfs_quota_us": quota}
    with cage("cpu", limits) as folder:
        if folder:
            put(folder, pid)
            yield "cgroup"
            return
    pulse = asyncio.create_task(sleep_and_wake(pid, share))
    try:
        yield "SIGSTOP"
    finally:
        pulse.cancel()
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


async def sleep_and_wake(pid: int, share: float) -> None:
    period = PERIOD_MICROSECONDS / 1e6
    with contextlib.suppress(ProcessLookupError):
        while True:
            os.kill(pid, signal.SIGSTOP)
            await asyncio.sleep(period * (1 - share))
            os.kill(pid, signal.SIGCONT)
            await asyncio.sleep(period * share)
