"""Runs as a program of its own: for each socket that it is sent, it forks a process that reads one
call from it, makes that call within its limits, and writes what came of it.

It has imported the modules that it is started with, so that a call costs a fork; it has one thread
and no secrets. It ends with the process that started it, and when it is not needed for a while.
"""

from __future__ import annotations

import gc
import os
import pickle
import resource
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import subprocess

IDLE_SECONDS_MAX = 300.0
NICENESS = 10  # what has a process of its own takes long: short requests come first
PID_BYTES = 4
FILES_MAX = 8  # of one message
IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # it ends with its parent

type Outcome = tuple[Literal["returned", "raised", "no memory"], Any]


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """What one call may take."""

    processor_seconds_max: int = 10
    memory_bytes_max: int = 1 << 30

    def apply(self) -> None:
        """Give the present process no more than this, from now on."""
        seconds = self.processor_seconds_max
        for what, most in (
            (resource.RLIMIT_CPU, (seconds, seconds)),
            (resource.RLIMIT_AS, (self.memory_bytes_max, self.memory_bytes_max)),
            (resource.RLIMIT_CORE, (0, 0)),
        ):
            resource.setrlimit(what, most)
        os.nice(NICENESS)


def serve(control: socket.socket, idle_seconds_max: float | None = None) -> list[int]:
    """Fork a process for each message with open files. Returns these files in each of the forked
    processes, and none in this one when no more messages come, or none came for so long."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel forgets children that ended
    gc.freeze()
    control.settimeout(idle_seconds_max)
    while True:
        try:
            message, files, _, _ = socket.recv_fds(control, 1, FILES_MAX)
        except TimeoutError:
            return []
        if not message:
            return []
        try:
            is_child = os.fork() == 0
        except OSError:
            is_child = False  # no room for one more process: its caller reads the end of the stream
        if is_child:
            control.close()
            return files
        for file in files:
            os.close(file)


def answer(connection: socket.socket) -> None:
    """Make the call that a connection brings, in the process that was forked for it."""
    with connection.makefile("rwb") as stream:
        stream.write(os.getpid().to_bytes(PID_BYTES))
        stream.flush()
        limits: ProcessLimits
        function, arguments, limits = pickle.load(stream)
        limits.apply()
        stream.write(outcome_of(function, arguments))


def outcome_of(function: Callable[..., Any], arguments: tuple[Any, ...]) -> bytes:
    """What a function returns or raises, as an `Outcome` that its caller can read. A process edge:
    the caller gets every exception."""
    try:
        return pickle.dumps(("returned", function(*arguments)))
    except MemoryError:
        return pickle.dumps(("no memory", None))
    except Exception as error:
        return outcome_of_error(error)


def outcome_of_error(error: Exception) -> bytes:
    """An exception as an `Outcome`; one that cannot be made again is told in words."""
    try:
        outcome = pickle.dumps(("raised", error))
        pickle.loads(outcome)
    except Exception:
        return pickle.dumps(("raised", RuntimeError(f"{type(error).__name__}: {error}")))
    return outcome


class ForkServerHandle:
    """The fork server of this process, which is started where it is needed and does not run.
    `start_program` starts it, with the socket whose number it is given as its stdin."""

    def __init__(self, start_program: Callable[[int], subprocess.Popen[bytes]]) -> None:
        self.start_program = start_program
        self.program: subprocess.Popen[bytes] | None = None
        self.control: socket.socket | None = None

    def ensure_started(self) -> socket.socket:
        """The socket of a server that runs, as far as is known. Raises OSError."""
        if self.control is None or self.program is None or self.program.poll() is not None:
            self.close()
            self.control, theirs = socket.socketpair()
            with theirs:
                self.program = self.start_program(theirs.fileno())
        return self.control

    def send(self, *files: int) -> None:
        """Have a process forked that gets these open files. Raises OSError."""
        socket.send_fds(self.ensure_started(), [b"\0"], files)

    def close(self) -> None:
        """End the server; what is sent later starts another. Safe to repeat."""
        if self.control is not None:
            self.control.close()
            self.control = None
        if self.program is not None:
            self.program.kill()
            self.program.wait()
            self.program = None


def main(modules: list[str]) -> None:
    """Serve the socket that is stdin, with these modules imported."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    for module in modules:
        import_module(module)
    if files := serve(socket.socket(fileno=0), IDLE_SECONDS_MAX):
        try:
            answer(socket.socket(fileno=files[0]))
        finally:
            os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
