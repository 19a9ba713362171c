"""One child process that is kept running."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from deploy.embedded.process_activity import (
    LOOK_AGAIN_SECONDS,
    Activity,
    Allowance,
    OwnTime,
    poll_seconds,
)
from deploy.embedded.settings import FROZEN_SECONDS_MAX
from deploy.embedded.state import PartState, ProcessMark
from deploy.embedded.subprocesses import (
    Child,
    Command,
    Start,
    kill_tree,
    signal_group,
    start_program,
)

log = logging.getLogger("heeler.supervisor")

BACKOFF_SECONDS_FIRST = 0.1
BACKOFF_SECONDS_MAX = 5.0
ALIVE_SECONDS_RESET = 2.0  # who lived this long was of use, and starts again without a wait
SIGN_POLL_SECONDS = 0.05
LOOK_SECONDS = 3.0  # a look costs some milliseconds of the CPU
# Postgres reads its log after a crash, and NATS its store: that takes a processor or a disk.
SERVER_STARTS_WITHIN = OwnTime(processor_seconds=600.0, idle_seconds=30.0)
# Postgres and NATS, for which all wait, get no more than this the next time either: on a full disk
# only a new start tells.
SERVER_ANSWERS_WITHIN = OwnTime(processor_seconds=60.0, idle_seconds=6.0)
FIRST_ANSWER_WITHIN = OwnTime(processor_seconds=300.0, idle_seconds=60.0)  # it loads its modules
DOUBLINGS_MAX = 4  # of what a process has, that was ended and did not get well by that
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
        """The state after a look that began at this time; None if it found the server ill."""
        return None if at is None else Well(before.since if before else at, at)


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that a part owes: what, since when, and the own time that it has for it. What it
    owes since another moment is owed anew."""

    what: str
    since: float
    bound: OwnTime


@dataclass(frozen=True, slots=True)
class Look:
    """The result of a look: whether the part is known to be well, what is missing, and until when
    that counts against it. A part that waits for others is not well, and owes nothing."""

    is_well: bool
    missing: tuple[Missing, ...] = ()
    until: float = float("inf")


class OverdueTime:
    """For how much of its own time a part has owed what is missing."""

    def __init__(self) -> None:
        self._passed: dict[tuple[str, float], OwnTime] = {}
        self._unsure: list[tuple[float, OwnTime]] = []  # later than what counts so far

    def note(self, at: float, own: OwnTime, look: Look) -> None:
        """Count what passed since the last look for what was missing then and still is."""
        known, self._passed = self._passed, {}
        self._unsure.append((at, own))
        sure = sum((own for end, own in self._unsure if end <= look.until), OwnTime())
        self._unsure = [(end, own) for end, own in self._unsure if end > look.until]
        for missing in look.missing:
            key = (missing.what, missing.since)
            self._passed[key] = known[key] + sure if key in known else OwnTime()
        if not look.missing:
            self._unsure.clear()

    def too_long(self, look: Look, factor: float) -> Missing | None:
        """The part that has been missing for more than so many times its bound, if any."""
        for missing in look.missing:
            if self._passed[missing.what, missing.since].exceeds(missing.bound * factor):
                return missing
        return None


class Part:
    """One child process that is kept running until it is stopped."""

    def __init__(
        self,
        command: Command,
        state: PartState,
        changed: Callable[[], None],
        prepare: Callable[[Part], None] | None = None,
        start: Start = start_program,
        *,
        frozen_seconds_max: float = FROZEN_SECONDS_MAX,
    ) -> None:
        self.command = command
        self.state = state
        self._changed = changed
        self._prepare = prepare
        self._start_command = start
        self._frozen_seconds_max = frozen_seconds_max
        self.well: Well | None = None
        self.started_at = 0.0
        self.starts_in_vain = 0  # since it was well, without those that somebody killed
        self._backoff = Backoff()
        self._stopping = asyncio.Event()
        self._process: Child | None = None
        self._ended_in_vain = 0  # since it was well, because it was ill
        self._ended: Child | None = None  # the last of these
        self._replaced: Child | None = None  # told to stop, for another
        self._keeper: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """The id of the running process; None while none runs."""
        process = self._process
        return process.pid if process and process.returncode is None else None

    def start(self) -> None:
        self._keeper = asyncio.create_task(self._keep(), name=self.command.name)

    async def wait_ready(
        self, ready: Callable[[], bool], bound: OwnTime = SERVER_STARTS_WITHIN
    ) -> None:
        """Return when the part is ready. Raises Failed where it ends again and again, or is not
        ready within so much of its own time."""
        began, restarts_before, name = time.monotonic(), self.state.restarts, self.command.name
        allowance = self.allowance(bound)
        while not await asyncio.to_thread(ready):
            if self._keeper and self._keeper.done():
                self._keeper.result()
            if self.state.restarts - restarts_before > RESTARTS_BEFORE_READY_MAX:
                ended = f"it ended again and again, with {self.state.last_exit}"
                raise EndsAgainAndAgain(name, f"{name} did not get ready: {ended}.")
            if allowance.is_spent(self.pid):
                raise Failed(name, f"{name} did not get ready.")
            await asyncio.sleep(poll_seconds(time.monotonic() - began))
        self._note_health(time.monotonic())

    async def watch(self, ask: Callable[[], Look], *, backs_off: bool = False) -> None:
        """End the process, so that it is started again, when it is frozen, or has owed something
        for more of its own time than it has for that: some troubles end with a new start only.
        Never gives up. With `backs_off` it has twice as long each time that a new start was of no
        use, until it was well."""
        activity, workers = Activity(), self._activity()
        overdue, seen = OverdueTime(), self._process
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            began, pid = time.monotonic(), self.pid
            if self._process is not seen:
                overdue, seen = OverdueTime(), self._process
            own, is_frozen = activity.look(pid), activity.frozen_seconds > 0
            if seen is None or pid is None:
                continue
            look = Look(is_well=False) if is_frozen else await asyncio.to_thread(ask)
            if self._process is not seen:
                continue
            self._note_health(began if look.is_well else None)
            if look.missing and self.command.works_in_children:
                own = workers.look(pid)
            else:  # they are many: nobody looks at them while all is well
                workers = self._activity()
            overdue.note(began, own, look)
            factor = 2.0 ** min(self._ended_in_vain, DOUBLINGS_MAX) if backs_off else 1.0
            if activity.frozen_seconds > self._frozen_seconds_max:
                log.error("%s is frozen: SIGKILL", self.command.name)
                kill_tree(pid)
            elif missing := overdue.too_long(look, factor):
                log.error("%s does not get well: %s is missing", self.command.name, missing.what)
                self._ended_in_vain, self._ended = self._ended_in_vain + 1, seen
                await self._end(seen, self.command)

    def _note_health(self, well_at: float | None) -> None:
        self.well = Well.going_on(self.well, well_at)
        if self.well:
            self.starts_in_vain = self._ended_in_vain = 0

    async def replace(self, command: Command) -> None:
        """Run another command from now on; returns when the process of the one before has ended.
        While one waits for its next start, that is made with the new command."""
        self.command = command
        process = self._replaced = self._process  # also where its end is not yet counted
        if process is not None and process.returncode is None:
            await self._end(process, command)

    async def wait_for_sign(self, gives_sign: Callable[[], Awaitable[bool]]) -> None:
        """Return when the process that was started last says that it serves. Raises Failed where it
        ends before, or does not in time, which is its own."""
        restarts, name, bound = self.state.restarts, self.command.name, FIRST_ANSWER_WITHIN
        allowance, began = self.allowance(bound), time.monotonic()
        while self.pid is None or not await gives_sign():
            if self.state.restarts > restarts:
                raise Failed(name, f"{name} ended at its start, with {self.state.last_exit}")
            if allowance.is_spent(self.pid):
                raise Failed(name, f"{name} did not get healthy within {bound}")
            await asyncio.sleep(max(poll_seconds(time.monotonic() - began), SIGN_POLL_SECONDS))

    async def stop(self) -> None:
        """End the process, and let nothing take its place."""
        self._stopping.set()
        while self._keeper and not self._keeper.done():  # a process may just be made
            if self._process and self._process.returncode is None:
                await self._end(self._process, self.command)
            await asyncio.wait([self._keeper], timeout=SIGN_POLL_SECONDS)
        self._note("stopped", mark=None)

    async def _end(self, process: Child, command: Command) -> None:
        """Ask a process to stop, and kill it where it does not within its own time for that."""
        signal_group(process.pid, command.stop_signal)
        ended = asyncio.ensure_future(process.wait())
        allowance = self.allowance(command.stops_within)
        while not (await asyncio.wait([ended], timeout=LOOK_AGAIN_SECONDS))[0]:
            if allowance.is_spent(process.pid):
                log.warning("%s ignored the stop signal: killed", command.name)
                kill_tree(process.pid)
                await ended

    def allowance(self, bound: OwnTime) -> Allowance:
        """So much of the own time of the processes that this part is."""
        return Allowance(bound, has_children=self.command.works_in_children)

    def _activity(self) -> Activity:
        return Activity(has_children=self.command.works_in_children)

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
            process = await self._start_command(command)
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
        if code == -signal.SIGKILL and process is not self._ended:  # where memory is short, say
            self.starts_in_vain = max(self.starts_in_vain - 1, 0)
        signal_group(process.pid, signal.SIGKILL)  # what it left behind
        return code

    def _note(self, state: str, *, mark: ProcessMark | None, last_exit: int | None = None) -> None:
        self.state.state, self.state.mark = state, mark
        if last_exit is not None:
            self.state.last_exit = last_exit
        self._changed()


def look_at_server(part: Part, *, is_well: bool) -> Look:
    """A look at Postgres or NATS; one that is not well owes an answer since its start."""
    missing = Missing("an answer", part.started_at, SERVER_ANSWERS_WITHIN)
    return Look(is_well, () if is_well else (missing,))
