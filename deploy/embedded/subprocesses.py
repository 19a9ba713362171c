"""Start a child that never outlives its parent, with its log in a file."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Protocol

import psutil

from deploy.embedded.postgres_account import Account
from deploy.embedded.process_activity import LOOK_AGAIN_SECONDS, Allowance, OwnTime
from deploy.embedded.process_control import die_with

LOG_BYTES_MAX = 20 * 1024 * 1024
LOGS_KEPT = 3
UMASK = 0o077  # what children write is for nobody else
STOPS_WITHIN = OwnTime(processor_seconds=30.0, idle_seconds=10.0)


class Child(Protocol):
    """A process that this one started."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None:
        """Its exit code, that of a signal being negative; None while it runs."""

    async def wait(self) -> int:
        """Return its exit code when it has ended."""


@dataclass(frozen=True, kw_only=True)
class Command:
    name: str
    argv: list[str]
    environment: dict[str, str]
    folder: Path
    log: Path
    account: Account | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    # Sent by the kernel when the supervisor dies without saying goodbye.
    orphan_signal: signal.Signals = signal.SIGKILL
    stops_within: OwnTime = STOPS_WITHIN  # SIGKILL then
    works_in_children: bool = False  # what it does is done by its children
    descriptors: tuple[int, ...] = ()  # open files of ours that the child gets too


# Starts a command on the main thread. Raises OSError.
type Start = Callable[[Command], Awaitable[Child]]


@contextlib.contextmanager
def spawn_options(command: Command) -> Iterator[dict[str, Any]]:
    """The keyword arguments that `subprocess` and `asyncio` take to start the command.

    Call it on the main thread: the kernel sends the orphan signal when the *thread* that forked
    ends, not the process.
    """
    with open_log(command.log) as log:
        options: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": log,
            "stderr": log,
            "cwd": command.folder,
            "env": command.environment,
            "process_group": 0,
            "pass_fds": command.descriptors,
            "umask": UMASK,
            # Runs after the change of account, which would clear the setting.
            "preexec_fn": partial(die_with, os.getpid(), command.orphan_signal),
        }
        if command.account:
            options |= {"user": command.account.uid, "group": command.account.gid}
            options |= {"extra_groups": []}
        yield options


def spawn(command: Command, **more: Any) -> subprocess.Popen[bytes]:
    """Start the command, with `more` of what `subprocess` takes."""
    with spawn_options(command) as options:
        return subprocess.Popen(command.argv, **options | more)


async def start_program(command: Command) -> Child:
    """Start the command. Raises OSError."""
    with spawn_options(command) as options:
        return await asyncio.create_subprocess_exec(*command.argv, **options)


def wait_within(process: subprocess.Popen[bytes], bound: OwnTime) -> int:
    """The exit code of a program. It and its children are killed where they take more time of
    their own than that."""
    allowance = Allowance(bound, has_children=True)
    while True:
        try:
            return process.wait(LOOK_AGAIN_SECONDS)
        except subprocess.TimeoutExpired:
            if allowance.is_spent(process.pid):
                kill_tree(process.pid)


def open_log(path: Path) -> IO[bytes]:
    """A log to append to, which only its owner may read; a new one where it is past its limit."""
    rotate(path)
    return open(path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600))


def rotate(log: Path) -> None:
    """Move a log past its limit aside: `x.log.1` is the youngest of the kept ones."""
    try:
        if log.stat().st_size < LOG_BYTES_MAX:
            return
    except FileNotFoundError:
        return
    for age in range(LOGS_KEPT - 1, 0, -1):
        with contextlib.suppress(FileNotFoundError):
            log.with_name(f"{log.name}.{age}").replace(log.with_name(f"{log.name}.{age + 1}"))
    log.replace(log.with_name(f"{log.name}.1"))


def size_of(log: Path) -> int:
    """The bytes of a log; none if it is not there."""
    try:
        return log.stat().st_size
    except FileNotFoundError:
        return 0


def tail(log: Path, lines: int = 20, *, after: int = 0) -> str:
    """The last lines of what stands after so many bytes of a log."""
    try:
        with log.open("rb") as file:
            file.seek(max(after, log.stat().st_size - 16_384))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def signal_group(pid: int, number: signal.Signals) -> None:
    """Signal a child and whatever it left behind in its process group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def kill_tree(pid: int) -> None:
    """Kill a child that is frozen, and all that descends from it: those of Postgres, which have
    groups of their own, may be frozen too and would not notice."""
    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
    except (psutil.Error, OSError):
        family = []
    signal_group(pid, signal.SIGKILL)
    for process in family:
        with contextlib.suppress(psutil.Error, OSError):
            process.kill()
