"""Runs inside of the sandbox of an agent, with the names of `program_executor.py` beside its own:
executes one program after another, each as a process of its own. What these leave running stays.

Nothing that is left can answer for a later program: it cannot look into that one's processes, since
each program has a Landlock domain of its own beside those of others (where the kernel has none,
nothing is left running); and what it prints is heard by nobody, since each program has pipes of its
own. Signals are not kept from it: a program may end what an earlier one has started.
"""

from __future__ import annotations

import ctypes
import json
import os
import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from services.tools.sandbox.program_executor import (
        LENGTH_BYTES,
        RESULT,
        execute,
        lock_files,
        receive,
        write_frame,
    )

PR_SET_DUMPABLE = 4
PIECE_BYTES = 1 << 16
INHERITED_FILES_MAX = 4_096  # a name of its own: it stands beside those of `program_executor`
UNHEARD_MAX = 256  # pipes of what was left running
WRITTEN_AT_THE_END_MAX = 1 << 20  # what a pipe can hold
ENDING_LOOKS_MAX = 500
ENDING_LOOK_SECONDS = 0.002


class Unheard:
    """The outputs of what earlier programs left running: they are read, and nobody is told."""

    def __init__(self) -> None:
        self.files: list[int] = []

    def add(self, file: int) -> None:
        """One more; what prints into the oldest of too many is told that nobody reads."""
        self.files.append(file)
        while len(self.files) > UNHEARD_MAX:
            os.close(self.files.pop(0))

    def read(self, ready: list[int]) -> None:
        """Read and drop output that nobody waits for."""
        for file in [output for output in self.files if output in ready]:
            if not os.read(file, PIECE_BYTES):
                self.files.remove(file)
                os.close(file)


class Running:
    """One program: `outputs` says for the pipes that it prints into where that goes."""

    def __init__(self, program: dict[str, Any], rules: dict[str, list[str]]) -> None:
        pipes = [os.pipe() for _ in range(3)]
        self.child = os.fork()
        if self.child == 0:
            for place, (_, written) in zip((1, 2, RESULT), pipes):  # noqa: B905
                os.dup2(written, place)
            os.closerange(RESULT + 1, INHERITED_FILES_MAX)
            lock_files(rules["read"], rules["write"], scoped=False)
            prctl(PR_SET_DUMPABLE, 1)
            os.setsid()
            execute(program)
        for _, written in pipes:
            os.close(written)
        self.handle = os.pidfd_open(self.child)
        self.outputs = {pipes[0][0]: 1, pipes[1][0]: 2}
        self.result = pipes[2][0]
        self.bytes_max = LENGTH_BYTES + program["result_bytes_max"]
        self.data = b""

    @property
    def is_answered(self) -> bool:
        """Whether its result is there, or is none."""
        size = int.from_bytes(self.data[:LENGTH_BYTES], "big")
        return len(self.data) - LENGTH_BYTES >= size or len(self.data) > self.bytes_max

    def hear(self, unheard: Unheard) -> None:
        """Until it has told its result, or has ended."""
        while not self.is_answered:
            mine = [self.result, self.handle, *self.outputs]
            ready, _, _ = select.select([*mine, *unheard.files], [], [])
            unheard.read(ready)
            for file in [output for output in self.outputs if output in ready]:
                self.copy(file)
            if self.result in ready:
                piece = os.read(self.result, PIECE_BYTES)
                self.data += piece
                if not piece:
                    return
            elif self.handle in ready:
                return

    def copy(self, file: int) -> int:
        """Tell a piece of what it printed; returns how much."""
        piece = data = os.read(file, PIECE_BYTES)
        while data:
            data = data[os.write(self.outputs[file], data) :]
        if not piece:
            del self.outputs[file]
            os.close(file)
        return len(piece)

    def end(self, unheard: Unheard) -> bytes:
        """Kill it, if it has not ended, and tell the rest of what it printed; returns its result.
        What it has started may live on."""
        os.kill(self.child, 9)
        code = os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])
        for file in list(self.outputs):
            os.set_blocking(file, False)
            left = WRITTEN_AT_THE_END_MAX
            try:
                while left > 0 and file in self.outputs:
                    left -= self.copy(file)
            except BlockingIOError:
                pass
            if file in self.outputs:
                unheard.add(file)
        os.close(self.result)
        os.close(self.handle)
        size = int.from_bytes(self.data[:LENGTH_BYTES], "big")
        if len(self.data) >= LENGTH_BYTES and len(self.data) - LENGTH_BYTES == size:
            return self.data[LENGTH_BYTES:]
        why = f"It ended without a result ({f'signal {-code}' if code < 0 else f'status {code}'})"
        return json.dumps({"status": "error", "reason": why}).encode()


def prctl(option: int, value: int) -> None:
    """Change this process with prctl(2); a failure is not reported."""
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def end_others() -> None:
    """Kill all other processes of the sandbox but the first one, which buries them, and wait until
    none is there; for a second at most."""
    for _ in range(ENDING_LOOKS_MAX):
        try:
            os.kill(-1, 9)
        except ProcessLookupError:
            return
        select.select([], [], [], ENDING_LOOK_SECONDS)


def wait(unheard: Unheard) -> None:
    """Until the next program comes: what prints meanwhile never finds its pipe full."""
    ready: list[int] = []
    while 0 not in ready:
        ready, _, _ = select.select([0, *unheard.files], [], [])
        unheard.read(ready)


def stay(rules: dict[str, list[str]], locked: bool) -> None:
    """Execute each program that comes; what these leave running cannot look into this process."""
    prctl(PR_SET_DUMPABLE, 0)
    unheard = Unheard()
    while True:
        wait(unheard)
        program = receive()
        if not locked:
            end_others()
        running = Running(program, rules)
        running.hear(unheard)
        write_frame(running.end(unheard))
