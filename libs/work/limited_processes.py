"""Run a function on text from outside in a process of its own, with limits.

What a client, a model, a tool, a file or another server sends may be written so that reading it
takes long. A function that may need more than 50 ms of processor at its largest input is called
here: the event loop goes on meanwhile, and where a limit is reached only that process ends.

    processes = LimitedProcesses("libs.agent_toml")
    checked = await processes.run(check_file, text, org="org-1")

The function stands in a module, and its arguments, its result and what it raises can be pickled. A
call costs about 10 ms more than the function: its process is forked from one that has imported
`modules` already, which the first call starts.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from libs.bus.fair_semaphore import ORGANISATION_WAITING_MAX, FairSemaphore, NoPlace
from libs.work.fork_server import PID_BYTES, ForkServerHandle, Outcome, ProcessLimits

ROOT = Path(__file__).parents[2]
PROGRAM = "libs.work.fork_server"
PLACES = 2
ORGANISATION_PLACES_MAX = 2
WAITING_SECONDS_MAX = 60.0
STARTS_MAX = 2  # of a process for one call: the fork server may end just then
LIMITS = ProcessLimits()


class LimitReached(Exception):
    """A function needed more than it may have; the words say of what, and how much it may."""


class LimitedProcesses:
    """The calls that one process of a service has made, a few at a time, those of each organisation
    by turns."""

    def __init__(
        self,
        *modules: str,
        places: int = PLACES,
        of_organisation_max: int = ORGANISATION_PLACES_MAX,
        of_organisation_waiting_max: int = ORGANISATION_WAITING_MAX,
        waiting_seconds_max: float = WAITING_SECONDS_MAX,
    ) -> None:
        self.modules = modules
        self.places = FairSemaphore(
            places,
            of_organisation_max=of_organisation_max,
            of_organisation_waiting_max=of_organisation_waiting_max,
            wait_seconds_max=waiting_seconds_max,
            users="requests",
            thing="process",
        )
        self.server = ForkServerHandle(self.start_server)

    async def run[T](
        self, function: Callable[..., T], *arguments: Any, org: str, limits: ProcessLimits = LIMITS
    ) -> T:
        """Return what the function returns, or raise what it raises.

        Raises LimitReached where it needs too much, and NoPlace where too many calls wait. A call
        that is cancelled ends its process.
        """
        request = pickle.dumps((function, arguments, limits))
        async with self.places.hold(org):
            kind, value = await self.outcome(request, limits)
        if kind == "returned":
            return cast(T, value)
        if kind == "raised":
            raise value
        raise LimitReached(f"it takes more than {limits.memory_bytes_max >> 20} MiB of memory")

    async def outcome(self, request: bytes, limits: ProcessLimits) -> Outcome:
        """What came of a call. Raises LimitReached where its process ends without an answer."""
        pid, reader, writer = await self.start()
        answer = b""
        try:
            with suppress(ConnectionError):
                writer.write(request)
                answer = await reader.read()
        except asyncio.CancelledError:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            raise
        finally:
            writer.close()
        if not answer:
            seconds = limits.processor_seconds_max
            memory = limits.memory_bytes_max >> 20
            raise LimitReached(
                f"it takes more than {seconds} s of processor, or ended its process otherwise, as"
                f" more than {memory} MiB of memory can"
            )
        return cast(Outcome, pickle.loads(answer))

    async def start(self) -> tuple[int, asyncio.StreamReader, asyncio.StreamWriter]:
        """A process for one call, and the connection with it. Raises NoPlace."""
        for _ in range(STARTS_MAX):
            ours, theirs = socket.socketpair()
            with theirs:
                try:
                    self.server.send(theirs.fileno())
                except OSError:
                    ours.close()
                    self.close()
                    continue
            reader, writer = await asyncio.open_unix_connection(sock=ours)
            try:
                return int.from_bytes(await reader.readexactly(PID_BYTES)), reader, writer
            except (asyncio.IncompleteReadError, ConnectionError):
                writer.close()
                self.close()
            except asyncio.CancelledError:
                writer.close()
                raise
        raise NoPlace("No process could be started for this: try again in a moment")

    def start_server(self, control: int) -> subprocess.Popen[bytes]:
        """The fork server, without anything of this process's environment."""
        return subprocess.Popen(
            (sys.executable, "-m", PROGRAM, *self.modules),
            stdin=control,
            stdout=subprocess.DEVNULL,
            cwd=ROOT,
            env={"PATH": os.defpath, "PYTHONIOENCODING": "utf-8"},
        )

    def close(self) -> None:
        """End the fork server; a later call starts another. Safe to repeat."""
        self.server.close()

    def __del__(self) -> None:
        self.close()
