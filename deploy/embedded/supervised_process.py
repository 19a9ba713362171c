"""One child process that is kept running."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import psutil

from deploy.embedded.settings import FROZEN_SECONDS_MAX, PART_READY_SECONDS_MAX
from deploy.embedded.state import PartState, ProcessMark
from deploy.embedded.subprocesses import Command, kill_tree, signal_group, spawn_options

log = logging.getLogger("heeler.supervisor")

BACKOFF_SECONDS_FIRST = 0.1
BACKOFF_SECONDS_MAX = 5.0
ALIVE_SECONDS_RESET = 2.0  # who lived this long was of use, and starts again without a wait
READY_POLL_SECONDS = 0.01
SIGN_POLL_SECONDS = 0.05
# A look costs some milliseconds of the CPU; a server that is ill is ended after nine seconds.
LOOK_SECONDS = 3.0
FAILURES_MAX = 3
RESTARTS_BEFORE_READY_MAX = 4
CANNOT_START = 127


class Failed(Exception):
    """A part that never came up; the message is for the person at the keyboard."""

    def __init__(self, part: str, message: str) -> None:
        super().__init__(message)
        self.part = part


class EndsAgainAndAgain(Failed):
    """A part that does not live for long enough to come up."""


class Backoff:
    """None the first time, then 0.1 s doubling to 5 s, until a process lives for 2 s."""

    def __init__(self) -> None:
        self._next_seconds = 0.0

    def after(self, alive_seconds: float) -> float:
        if alive_seconds >= ALIVE_SECONDS_RESET:
            self._next_seconds = 0.0
        wait = self._next_seconds
        self._next_seconds = min(max(wait * 2, BACKOFF_SECONDS_FIRST), BACKOFF_SECONDS_MAX)
        return wait


@dataclass(frozen=True, slots=True)
class Well:
    """From when until when a server is known to have been well."""

    since: float
    until: float

    @staticmethod
    def going_on(before: Well | None, at: float | None) -> Well | None:
        """What is known after a look that began at this time; None if it found the server ill."""
        return None if at is None else Well(before.since if before else at, at)


class FrozenProcess:
    """For how long a process has been stopped by a signal, as somebody sees who looks at times. One
    that is stopped and continued all the time, as `cpulimit` does it, is not frozen."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._seen: tuple[int | None, float] = (None, 0.0)

    def seconds(self, pid: int | None) -> float:
        """0.0 for one that is not."""
        seen, self._seen = self._seen, (pid, processor_seconds(pid))
        if self._seen != seen or not is_stopped(pid):
            self._since = None
            return 0.0
        self._since = self._since or time.monotonic() - LOOK_SECONDS
        return time.monotonic() - self._since


def is_stopped(pid: int | None) -> bool:
    """Whether a process is stopped by a signal."""
    return status_of(pid) == str(psutil.STATUS_STOPPED)


def waits_for_disk(pid: int | None) -> bool:
    """Whether a process waits for a disk and can do nothing else."""
    return status_of(pid) == str(psutil.STATUS_DISK_SLEEP)


def status_of(pid: int | None) -> str:
    """What psutil says that a process does; empty where that cannot be read."""
    try:
        return str(psutil.Process(pid).status()) if pid is not None else ""
    except (psutil.Error, OSError):
        return ""


def processor_seconds(pid: int | None) -> float:
    """How long a process has had a processor; 0.0 where there is none."""
    try:
        times = psutil.Process(pid).cpu_times() if pid is not None else None
    except (psutil.Error, OSError):
        return 0.0
    return times.user + times.system if times else 0.0


class Part:
    """One child process that is kept running until it is stopped."""

    def __init__(
        self,
        command: Command,
        state: PartState,
        changed: Callable[[], None],
        prepare: Callable[[Part], None] | None = None,
        *,
        frozen_seconds_max: float = FROZEN_SECONDS_MAX,
    ) -> None:
        self.command = command
        self.state = state
        self._changed = changed
        self._prepare = prepare
        self._frozen_seconds_max = frozen_seconds_max
        self.well: Well | None = None
        self.started_at = 0.0
        self.starts_in_vain = 0  # since it was well, without those that somebody killed
        self._backoff = Backoff()
        self._stopping = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._warned: asyncio.subprocess.Process | None = None  # told to stop, since it was ill
        self._replaced: asyncio.subprocess.Process | None = None  # told to stop, for another
        self._keeper: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """The id of the running process; None while none runs."""
        process = self._process
        return process.pid if process and process.returncode is None else None

    def start(self) -> None:
        self._keeper = asyncio.create_task(self._keep(), name=self.command.name)

    async def wait_ready(
        self, ready: Callable[[], bool], seconds_max: float = PART_READY_SECONDS_MAX
    ) -> None:
        deadline, restarts_before = time.monotonic() + seconds_max, self.state.restarts
        while not await asyncio.to_thread(ready):
            if self._keeper and self._keeper.done():
                self._keeper.result()
            name = self.command.name
            if self.state.restarts - restarts_before > RESTARTS_BEFORE_READY_MAX:
                ended = f"it ended again and again, with {self.state.last_exit}"
                raise EndsAgainAndAgain(name, f"{name} did not get ready: {ended}.")
            if time.monotonic() > deadline:
                raise Failed(name, f"{name} did not get ready.")
            await asyncio.sleep(READY_POLL_SECONDS)
        self._note_health(time.monotonic())

    async def watch(
        self,
        well: Callable[[], bool | None],
        *,
        looks: int = FAILURES_MAX,
        looks_max: int = FAILURES_MAX,
    ) -> None:
        """End the process, so that it is started again, when it lives and has not been well for so
        many looks in a row: some troubles end with a new start only. Never gives up; it waits twice
        as long, up to `looks_max`, each time that a new start was of no use. `well` says None of
        one that still starts, which is left alone."""
        failures, patience = 0, looks
        frozen = FrozenProcess()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            began, seen, pid = time.monotonic(), self._process, self.pid
            frozen_seconds = frozen.seconds(pid)
            good = False if frozen_seconds else await asyncio.to_thread(well)
            if self._process is not seen or pid is None:
                failures = 0
                continue
            self._note_health(began if good else None)
            if frozen_seconds > self._frozen_seconds_max:
                log.error("%s is frozen: SIGKILL", self.command.name)
                kill_tree(pid)
            elif frozen_seconds or good is not False:
                failures, patience = 0, looks if good else patience
            elif (failures := failures + 1) >= (looks if seen is self._warned else patience):
                number = signal.SIGKILL if seen is self._warned else self.command.stop_signal
                log.error("%s does not get well: %s", self.command.name, number.name)
                signal_group(pid, number)
                failures, self._warned, patience = 0, seen, min(2 * patience, looks_max)

    def _note_health(self, well_at: float | None) -> None:
        self.well = Well.going_on(self.well, well_at)
        if self.well:
            self.starts_in_vain = 0

    async def replace(self, command: Command) -> None:
        """Run another command from now on; returns when the process of the one before has ended.
        While one waits for its next start, that is made with the new command."""
        self.command = command
        process = self._replaced = self._process  # also where its end is not yet counted
        if process is None or process.returncode is not None:
            return
        signal_group(process.pid, command.stop_signal)
        try:
            async with asyncio.timeout(command.stop_seconds_max):
                await process.wait()
        except TimeoutError:
            log.warning("%s ignored the stop signal: killed", command.name)
            signal_group(process.pid, signal.SIGKILL)
            await process.wait()

    async def wait_for_sign(
        self, gives_sign: Callable[[], Awaitable[bool]], seconds_max: float
    ) -> None:
        """Return when the process that was started last says that it serves. Raises Failed where it
        ends before, or does not in time."""
        deadline, restarts = time.monotonic() + seconds_max, self.state.restarts
        name = self.command.name
        while self.pid is None or not await gives_sign():
            if self.state.restarts > restarts:
                raise Failed(name, f"{name} ended at its start, with {self.state.last_exit}")
            if time.monotonic() > deadline:
                raise Failed(name, f"{name} did not get healthy within {seconds_max:g} s")
            await asyncio.sleep(SIGN_POLL_SECONDS)

    async def stop(self) -> None:
        self._stopping.set()
        if self._process and self._process.returncode is None:
            signal_group(self._process.pid, self.command.stop_signal)
        if self._keeper:
            _, pending = await asyncio.wait([self._keeper], timeout=self.command.stop_seconds_max)
            if pending and self._process:
                log.warning("%s ignored the stop signal: killed", self.command.name)
                signal_group(self._process.pid, signal.SIGKILL)
                await asyncio.wait([self._keeper])
        self._note("stopped", mark=None)

    async def _keep(self) -> None:
        while not self._stopping.is_set():
            started = time.monotonic()
            code = await self._run_once()
            if self._stopping.is_set():
                return
            if self._replaced is not None and self._process is self._replaced:
                log.info("%s exited with %s: another takes its place", self.command.name, code)
                self._replaced = None
                continue
            wait_seconds = self._backoff.after(time.monotonic() - started)
            log.warning(
                "%s exited with %s: restart in %.1f s", self.command.name, code, wait_seconds
            )
            self.state.restarts += 1
            self._note("restarting", mark=None, last_exit=code)
            if wait_seconds:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), wait_seconds)

    async def _run_once(self) -> int:
        command = self.command
        try:
            if self._prepare:
                self._prepare(self)
            with spawn_options(command) as options:
                process = await asyncio.create_subprocess_exec(*command.argv, **options)
        except OSError as error:
            log.error("%s cannot be started: %s", self.command.name, error)
            return CANNOT_START
        self._process = process
        self.starts_in_vain += 1
        self.state.started_at, self.started_at = time.time(), time.monotonic()
        self._note("running", mark=ProcessMark.of(process.pid))
        log.info("%s started, pid %s", self.command.name, process.pid)
        if self.command is not command:  # another came while the process was being made
            self._replaced = process
        if self._stopping.is_set() or self._replaced is process:
            signal_group(process.pid, command.stop_signal)
        code = await process.wait()
        self.well = None
        if code == -signal.SIGKILL and process is not self._warned:  # where memory is short, say
            self.starts_in_vain = max(self.starts_in_vain - 1, 0)
        signal_group(process.pid, signal.SIGKILL)  # what it left behind
        return code

    def _note(self, state: str, *, mark: ProcessMark | None, last_exit: int | None = None) -> None:
        self.state.state, self.state.mark = state, mark
        if last_exit is not None:
            self.state.last_exit = last_exit
        self._changed()
