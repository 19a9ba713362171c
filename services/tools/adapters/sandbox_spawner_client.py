"""The process that starts sandboxes, as the service speaks with it."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex

from services.tools.adapters.running_sandbox import Ended, NotStarted
from services.tools.sandbox import spawner_protocol
from services.tools.sandbox.confinement import Confinement
from services.tools.sandbox.ports import Workspace

PROGRAM = Path(spawner_protocol.__file__).with_name("spawner.py")
START_SECONDS_MAX = 10.0
LOOKS_FOR_LEFT_SECONDS = (0.02, 0.2, 0.5)
MARKED_BYTES = 256


class SpawnerFailed(NotStarted):
    """The process that starts sandboxes does not."""


@dataclass(slots=True, eq=False)
class Started:
    """The spawner's report on one process."""

    name: int
    pid: asyncio.Future[int] = field(repr=False)
    ended: asyncio.Future[Ended] = field(repr=False)


class Spawner:
    """One process that starts sandboxes; `alive` until it ends."""

    def __init__(self, confinement: Confinement) -> None:
        self.confinement = confinement
        self.loop = asyncio.get_running_loop()
        self.names = itertools.count(1)
        self.started: dict[int, Started] = {}
        self.ready: asyncio.Future[None] = self.loop.create_future()
        self.alive = False
        self.mark = token_hex(16)

    async def start(self) -> None:
        """Begin; raises SpawnerFailed if this confinement is not to be had."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-I", "-S", str(PROGRAM), str(theirs.fileno())]
        opened = asyncio.ensure_future(asyncio.to_thread(self.open, command, theirs))
        try:
            await asyncio.shield(opened)
        finally:
            self.process = await opened
            self.control = ours
            self.alive = True
        ours.send(json.dumps({**self.confinement.setup(), "mark": self.mark}).encode())
        ours.setblocking(False)
        self.loop.add_reader(ours.fileno(), self.hear)
        try:
            async with asyncio.timeout(START_SECONDS_MAX):
                await self.ready
        except TimeoutError:
            raise SpawnerFailed("the process that starts sandboxes does not answer") from None

    def open(self, command: list[str], control: socket.socket) -> subprocess.Popen[bytes]:
        """Start the process, with its end of the socket."""
        with control:
            files = [control.fileno()]
            return subprocess.Popen(
                command,
                pass_fds=files,
                stdin=subprocess.DEVNULL,
                cwd="/",
                env={},
                start_new_session=True,  # who kills the group of the service leaves it to clean up
            )

    def spawn(
        self, files: Sequence[int], workspace: Workspace | None = None, packages: str = ""
    ) -> Started:
        """Start one process with these as its stdin, stdout, stderr, result and status; with a
        workspace it is that one's user, where the server may choose."""
        if not self.alive:
            raise SpawnerFailed("the process that starts sandboxes has ended")
        name = next(self.names)
        started = Started(name, self.loop.create_future(), self.loop.create_future())
        if self.confinement.folder:
            Path(self.confinement.folder, str(name)).mkdir(mode=0o700)
        self.started[name] = started
        try:
            asked = {"name": name, **self.confinement.with_folders(workspace, packages)}
            socket.send_fds(self.control, [json.dumps(asked).encode()], list(files))
        except OSError as error:  # also BlockingIOError: far more than it can start
            del self.started[name]
            raise SpawnerFailed(f"no sandbox could be asked for: {error}") from error
        return started

    def hear(self) -> None:
        """Take one message of the process."""
        try:
            message = self.control.recv(spawner_protocol.MESSAGE_BYTES_MAX)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        if not message:
            self.mark_lost("it has ended")
            self.loop.run_in_executor(None, end_marked, self.mark)
            return
        report = json.loads(message)
        if "ready" in report:
            if not self.ready.done():
                self.ready.set_result(None)
        elif "refused" in report:
            self.mark_lost(report["refused"])
        else:
            self.hear_of(report)

    def hear_of(self, report: dict[str, object]) -> None:
        """Handle a report about one process."""
        name = report["name"]
        assert isinstance(name, int)
        started = self.started[name]
        match report:
            case {"pid": int(pid)}:
                started.pid.set_result(pid)
            case {"failed": str(reason)}:
                del self.started[name]
                started.pid.set_exception(SpawnerFailed(reason))
                started.pid.exception()  # whoever awaits it sees it
                started.ended.set_result(Ended(126))
            case {"ended": int(code), "cpu": float(cpu), "rss": int(memory)}:
                del self.started[name]
                started.ended.set_result(Ended(code, cpu, memory))

    def mark_lost(self, reason: str) -> None:
        """Note that the spawner is gone: every process that it started has ended with it."""
        if not self.alive:
            return
        self.alive = False
        self.loop.remove_reader(self.control.fileno())
        self.control.close()
        if not self.ready.done():
            self.ready.set_exception(SpawnerFailed(reason))
        for started in self.started.values():
            if not started.pid.done():
                started.pid.set_exception(SpawnerFailed(reason))
                started.pid.exception()
            if not started.ended.done():
                started.ended.set_result(Ended(-9))
        self.started.clear()

    async def close(self) -> None:
        """End it, and wait for that."""
        self.mark_lost("it was stopped")
        ended = asyncio.ensure_future(asyncio.to_thread(self.process.wait))
        _, late = await asyncio.wait([ended], timeout=START_SECONDS_MAX)
        if late:  # it ends by itself when the socket is closed
            self.process.kill()
        await ended


def end_marked(mark: str) -> None:
    """Kill what a spawner has started that was killed itself. What it was starting in that moment
    waits for ever otherwise: it is still to be told that it ends with its parent."""
    for seconds in LOOKS_FOR_LEFT_SECONDS:
        time.sleep(seconds)
        for entry in os.listdir("/proc"):
            if entry.isdigit() and has_mark(entry, mark.encode()):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(int(entry), signal.SIGKILL)


def has_mark(pid: str, mark: bytes) -> bool:
    """Whether a process was started with this in its environment."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return mark in file.read(MARKED_BYTES)
    except OSError:
        return False


def close_all(files: Sequence[int]) -> None:
    """Close files that may be closed already."""
    for file in files:
        with suppress(OSError):
            os.close(file)
