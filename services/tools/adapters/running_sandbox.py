"""Interface of one running sandbox, whatever holds it."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass

from services.tools.sandbox.spawner_protocol import LENGTH_BYTES, LOCKED, READY, RESULT_BYTES_MAX

# What is printed over the bound is read and dropped up to here; then the program is killed.
DROPPED_BYTES_MAX = 16 << 20


class NotStarted(Exception):
    """No sandbox can be started; `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a process: `code` as subprocess has it, and its usage."""

    code: int
    cpu_seconds: float = 0.0
    memory_bytes_max: int = 0
    out_of_memory: bool = False


@dataclass(slots=True)
class SandboxUse:
    """The usage of everything in a sandbox together: memory with that of its files in memory, CPU
    since it began; `processes` are those of programs."""

    processes: int = 0
    threads: int = 0
    memory_bytes: int = 0
    cpu_seconds: float = 0.0
    files: int = 0
    sockets: int = 0


class Output:
    """The output of a program, up to a bound."""

    def __init__(self, kept_bytes: int) -> None:
        self.kept = bytearray()
        self.kept_bytes = kept_bytes
        self.dropped_bytes = 0

    def take(self, piece: bytes) -> None:
        """Keep what there is room for, and count the rest."""
        room = self.kept_bytes - len(self.kept)
        self.kept += piece[:room]
        self.dropped_bytes += max(0, len(piece) - room)

    def forget(self, kept_bytes: int) -> None:
        """From now on keep so much; nothing of what came before."""
        self.kept.clear()
        self.kept_bytes, self.dropped_bytes = kept_bytes, 0

    def read_present(self) -> None:
        """Take what is there now, within the bound; here that has been taken already."""

    @property
    def total_bytes(self) -> int:
        """The bytes that came, kept or not."""
        return len(self.kept) + self.dropped_bytes

    def text(self) -> str:
        """The kept text, with a note on the rest."""
        text = self.kept.decode("utf-8", "replace")
        if self.dropped_bytes:
            text += f"\n... (cut after {self.kept_bytes} bytes)"
        return text


class RunningSandbox(ABC):
    """One sandbox that runs a program, or waits for one. `result` is what came through its pipe of
    results; `changed` is set whenever something of it changes."""

    stdout: Output
    stderr: Output
    result: Output

    def __init__(self) -> None:
        self.changed = asyncio.Event()

    @property
    @abstractmethod
    def ended(self) -> bool:
        """Whether nothing of it runs any more."""

    @property
    @abstractmethod
    def died(self) -> bool:
        """The same, also if nobody has been told yet."""

    @abstractmethod
    async def ready(self) -> None:
        """Until it waits for a program. Raises NotStarted with what the machine said; OSError."""

    @abstractmethod
    def use(self) -> SandboxUse:
        """What the sandbox uses at the moment."""

    @abstractmethod
    async def send(self, data: bytes) -> None:
        """Give it its program; nothing happens if it has ended."""

    @abstractmethod
    async def freeze(self) -> bool:
        """Let nothing in it run until `thaw`; false if that cannot be."""

    @abstractmethod
    def thaw(self) -> None:
        """Let everything in it go on."""

    @abstractmethod
    def kill(self) -> None:
        """End it and everything in it."""

    @abstractmethod
    async def close(self) -> Ended:
        """Kill it, wait until it is gone, and say what it used. Raises TimeoutError if it does not
        go."""

    def notice(self) -> None:
        """Wake whoever waits for a change."""
        self.changed.set()

    @property
    def locked(self) -> bool:
        """Whether Landlock keeps its programs from other files; told before there is any."""
        return bytes(self.result.kept[:1]) == LOCKED

    @property
    def frame(self) -> bytes | None:
        """The result, once it is there in full."""
        data = self.result.kept[len(READY) :]
        size = int.from_bytes(data[:LENGTH_BYTES], "big")
        if len(data) < LENGTH_BYTES or len(data) - LENGTH_BYTES < size:
            return None
        return bytes(data[LENGTH_BYTES : LENGTH_BYTES + size])

    @property
    def frame_is_too_long(self) -> bool:
        """Whether it announced more than anybody reads."""
        data = self.result.kept[len(READY) : len(READY) + LENGTH_BYTES]
        return len(data) == LENGTH_BYTES and int.from_bytes(data, "big") > RESULT_BYTES_MAX

    def keep_output(self, count: int) -> None:
        """From now on keep so much of what it prints."""
        for output in (self.stdout, self.stderr):
            output.forget(count)

    def forget_result(self) -> None:
        """Be ready for the result of another program."""
        del self.result.kept[len(READY) :]
        self.result.dropped_bytes = 0
