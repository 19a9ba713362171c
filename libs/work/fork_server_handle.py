"""Start a fork server, send it the open files of processes to fork, and end it."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable


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
