"""A machine that grants each process so much of one processor, and no more.

Signals do it, which work everywhere: each process is stopped, and in each round continued for a
moment of its own. `python -m tests.slow_machine SHARE PROGRAM ...` runs a program so, with all that
descends from it, until none of them is left; the exit code is that of the program. `slowed` does so
with the services of a server.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.embedded.state import read_state

ROUND_SECONDS = 0.1
PR_SET_CHILD_SUBREAPER = 36  # descendants whose parent ends become ours


def main(share: float, words: list[str]) -> int:
    """Run a program on a slow machine."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    program = subprocess.Popen(words)
    known, code = [program.pid], 0
    while known:
        run_round(known, share)
        while ended := reap():
            code = ended[1] if ended[0] == program.pid else code
        known = family(os.getpid())
    return code


@contextmanager
def slowed(home: Path, parts: Iterable[str], share: float) -> Iterator[None]:
    """Hold these parts of the server in a home to a share of a processor, each from its start."""
    names, ended = frozenset(parts), threading.Event()

    def pids() -> list[int]:
        state = read_state(home)
        found = state.parts.items() if state else ()
        roots = [part.mark.pid for name, part in found if name in names and part.mark]
        return [each for pid in roots for each in (pid, *family(pid))]

    def hold() -> None:
        known: list[int] = []
        while not ended.is_set():
            known = pids()
            run_round(known, share)
        for pid in known:
            send(pid, signal.SIGCONT)

    holding = threading.Thread(target=hold)
    holding.start()
    try:
        yield
    finally:
        ended.set()
        holding.join()


def run_round(pids: list[int], share: float) -> None:
    """Let each of these processes run for its share of a round, one after the other."""
    began = time.monotonic()
    for pid in pids:
        send(pid, signal.SIGCONT)
        time.sleep(ROUND_SECONDS * share)
        send(pid, signal.SIGSTOP)
        for child in children_of(pid):  # also one that has just been made
            send(child, signal.SIGSTOP)
    time.sleep(max(0.0, began + ROUND_SECONDS - time.monotonic()))


def reap() -> tuple[int, int] | None:
    """A child that has ended, and its exit code."""
    with contextlib.suppress(ChildProcessError):
        pid, status = os.waitpid(-1, os.WNOHANG)
        return (pid, os.waitstatus_to_exitcode(status)) if pid else None
    return None


def family(pid: int) -> list[int]:
    """All that descends from a process."""
    found = children_of(pid)
    return [*found, *(each for child in found for each in family(child))]


def children_of(pid: int) -> list[int]:
    """The children of a process, by the list that the kernel keeps for each of its threads."""
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, path.read_text().split())
    return found


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process that may have ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
