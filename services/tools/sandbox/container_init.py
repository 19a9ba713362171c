"""The first process of a container: it starts the one that executes programs, and speaks for it.

Only stdin, stdout and stderr lead out of a container, and a program may write to the last two. So
what goes over five pipes elsewhere goes in frames here: a channel (one byte), a length (four), and
so many bytes. Nothing in the container can look into this process or kill it: it cannot be traced,
and the kernel keeps signals of its own namespace from it. When stdin ends it kills all others, and
ends. It runs by itself, on the Python of the image (3.9 or newer), without the packages of Heeler.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import select
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# From the service: what the program reads, and that everything stops or goes on.
INPUT, FREEZE, THAW = b"I", b"F", b"T"
# To the service: what is printed, results, what all use, that all have stopped, how it ended.
STDOUT, STDERR, RESULT, USE, FROZEN, ENDED = b"O", b"E", b"R", b"U", b"F", b"X"
HEADER_BYTES = 5
PIECE_BYTES = 1 << 16
PIECES_MAX = 16  # of one pipe before it is another one's turn
REPORT_SECONDS = 0.1
PARKED_FILES = 64
PR_SET_DUMPABLE = 4
SCRATCH_FOLDERS = ("/tmp", "/dev/shm")
OUT_OF_MEMORY = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


def tell(channel: bytes, data: bytes) -> None:
    """One frame to the service."""
    data = channel + len(data).to_bytes(HEADER_BYTES - 1, "big") + data
    while data:
        data = data[os.write(1, data) :]


def use() -> dict[str, Any]:
    """The usage of all other processes of the container together."""
    own = os.times()
    cpu = own.children_user + own.children_system
    found = {"processes": 0, "threads": 0, "memory_bytes": 0, "files": 0}
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or entry == "1":
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                # The name stands in parentheses and may contain anything.
                fields = file.read().rpartition(b")")[2].split()
            with open(f"/proc/{entry}/statm", "rb") as file:
                _, resident, shared = map(int, file.read().split()[:3])
        except (OSError, ValueError):
            continue
        found["processes"] += 1
        found["threads"] += int(fields[17])
        found["memory_bytes"] += (resident - shared) * PAGE_BYTES
        cpu += sum(map(int, fields[11:15])) / TICKS_A_SECOND
    for folder in SCRATCH_FOLDERS:
        held = os.statvfs(folder)
        found["memory_bytes"] += (held.f_blocks - held.f_bfree) * held.f_frsize
        found["files"] = max(found["files"], held.f_files - held.f_ffree)
    return {**found, "cpu_seconds": cpu}


def was_out_of_memory() -> bool:
    """Whether the kernel has ended something of this container for its memory."""
    for path in OUT_OF_MEMORY:
        try:
            with open(path) as file:
                counts = dict(line.split() for line in file)
        except (OSError, ValueError):
            continue
        return counts.get("oom_kill", "0") != "0"
    return False


class Supervisor:
    """Starts the process that executes programs, and copies what it says."""

    def __init__(self, program: str, rules: str) -> None:
        pairs = [os.pipe() for _ in range(4)]
        code = os.memfd_create("program")
        os.write(code, program.encode())
        theirs = [pairs[0][0], *(written for _, written in pairs[1:]), code]
        self.child = os.fork()
        if self.child == 0:
            try:
                become(theirs, rules)
            finally:
                os._exit(126)
        for file in theirs:
            os.close(file)
        self.program = pairs[0][1]
        # The result last: what was printed before it was written is told before it.
        self.outputs = {pairs[1][0]: STDOUT, pairs[2][0]: STDERR, pairs[3][0]: RESULT}
        for file in (self.program, *self.outputs):
            os.set_blocking(file, False)
        self.heard = b""
        self.pending = b""
        self.active = False
        self.code = -signal.SIGKILL
        self.memory_bytes_max = 0

    def serve(self, wake: int) -> None:
        """Until the program has ended, or nobody asks any more."""
        reported = 0.0
        while True:
            ready, _, _ = select.select(
                [0, wake, *self.outputs],
                [self.program] if self.pending else [],
                [],
                REPORT_SECONDS if self.active else None,
            )
            if 0 in ready and not self.hear():
                return
            self.copy()
            self.feed()
            if wake in ready:
                os.read(wake, PIECE_BYTES)
                if self.reap():
                    return
            if self.active and os.times().elapsed - reported >= REPORT_SECONDS:
                reported = os.times().elapsed
                self.report()

    def hear(self) -> bool:
        """Do what the service says; false if it says nothing any more."""
        data = os.read(0, PIECE_BYTES)
        self.heard += data
        while len(self.heard) >= HEADER_BYTES:
            size = int.from_bytes(self.heard[1:HEADER_BYTES], "big")
            if len(self.heard) < HEADER_BYTES + size:
                break
            channel, body = self.heard[:1], self.heard[HEADER_BYTES : HEADER_BYTES + size]
            self.heard = self.heard[HEADER_BYTES + size :]
            if channel == INPUT:
                self.pending += body
                self.active = True
            elif channel == FREEZE:
                signal_all(signal.SIGSTOP)
                self.active = False
                self.report()
                tell(FROZEN, b"")
            elif channel == THAW:
                signal_all(signal.SIGCONT)
        return bool(data)

    def copy(self) -> None:
        """Tell what the pipes hold; before a result how much was used for it."""
        for file, channel in list(self.outputs.items()):
            for _ in range(PIECES_MAX):
                try:
                    piece = os.read(file, PIECE_BYTES)
                except BlockingIOError:
                    break
                if not piece:
                    del self.outputs[file]
                    break
                if channel == RESULT and self.active:
                    self.report()
                tell(channel, piece)

    def feed(self) -> None:
        """Give the program what is meant for it, as far as it takes it."""
        try:
            while self.pending:
                self.pending = self.pending[os.write(self.program, self.pending) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self.pending = b""

    def report(self) -> None:
        """Report what the container uses now."""
        tell(USE, json.dumps(use()).encode())

    def reap(self) -> bool:
        """Take leave of what has ended; true if the process that executes programs has."""
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            if pid == self.child:
                self.code = os.waitstatus_to_exitcode(status)
                self.memory_bytes_max = used.ru_maxrss << 10
                return True

    def end(self) -> None:
        """Kill all others, tell what they left to be told, and how it ended."""
        while True:
            signal_all(signal.SIGKILL)
            try:
                pid, status, used = os.wait4(-1, 0)
            except ChildProcessError:
                break
            if pid == self.child:
                self.code = os.waitstatus_to_exitcode(status)
                self.memory_bytes_max = used.ru_maxrss << 10
        while self.outputs:  # nobody can write to them any more
            self.copy()
        own = os.times()
        outcome = {
            "code": self.code,
            "cpu_seconds": own.children_user + own.children_system,
            "memory_bytes_max": self.memory_bytes_max,
            "out_of_memory": was_out_of_memory(),
        }
        tell(ENDED, json.dumps(outcome).encode())


def become(files: list[int], rules: str) -> None:
    """Turn into the process that executes programs."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    parked = [fcntl.fcntl(file, fcntl.F_DUPFD, PARKED_FILES) for file in files]
    for place, file in enumerate(parked):
        os.dup2(file, place)
    os.closerange(len(files), 4096)
    os.setsid()
    os.execv(sys.executable, [sys.executable, "-I", "-S", f"/dev/fd/{len(files) - 1}", rules])


def signal_all(number: int) -> None:
    """Signal all other processes of the container; none can begin meanwhile and be missed."""
    try:
        os.kill(-1, number)
    except ProcessLookupError:
        return


def main() -> None:
    """Start the program, copy its output, report its end."""
    assert os.getpid() == 1, "it kills all others that it can"
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    wake, written = os.pipe()
    os.set_blocking(written, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(written, warn_on_full_buffer=False)
    supervisor = Supervisor(sys.argv[1], sys.argv[2])
    try:
        supervisor.serve(wake)
    finally:
        supervisor.end()


main()
