"""What the supervisor does where a part, or itself, cannot do what it should."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest

from deploy.embedded import (
    launch_progress,
    migration_run,
    process_activity,
    supervised_process,
    supervisor,
    up,
)
from deploy.embedded.nats_part import STARTS_IN_VAIN_MAX, NatsPart
from deploy.embedded.nats_server import UNWELL_WITHIN, Nats, NatsStart
from deploy.embedded.process_activity import Activity, OwnTime
from deploy.embedded.settings import STALLED_SECONDS_MAX, LaunchError, Settings, read_settings
from deploy.embedded.state import InstanceState, PartState, ProcessMark
from deploy.embedded.subprocesses import Command, kill_tree
from deploy.embedded.supervised_process import (
    SERVER_STARTS_WITHIN,
    Failed,
    Look,
    Missing,
    Part,
)
from deploy.embedded.supervisor import Supervisor, keep_on
from tests.waiting import wait_for


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (supervised_process, supervisor):
        monkeypatch.setattr(module, "LOOK_SECONDS", 0.001)
    for module in (supervised_process, migration_run):
        monkeypatch.setattr(module, "LOOK_AGAIN_SECONDS", 0.001)
    monkeypatch.setattr(process_activity, "LOOK_AGAIN_SECONDS", 0.001)
    monkeypatch.setattr(supervised_process, "BACKOFF_SECONDS_MAX", 0.001)


@pytest.fixture
def heeler(tmp_path: Path) -> Supervisor:
    made = Supervisor(read_settings({"HEELER_HOME": str(tmp_path)}))
    made._nats.store.mkdir(parents=True)
    return made


def part(folder: Path, *argv: str, prepare: Callable[[Part], None] | None = None) -> Part:
    environment, log = dict(os.environ), folder / "nats.log"
    command = Command(name="nats", argv=argv, environment=environment, folder=folder, log=log)
    return Part(command, PartState("nats"), lambda: None, prepare)


def set_aside(heeler: Supervisor) -> list[Path]:
    return list(heeler._nats.folder.glob("store.damaged-*"))


async def test_a_watch_that_fails_is_logged_and_goes_on(
    quick: None, caplog: pytest.LogCaptureFixture
) -> None:
    looks: list[int] = []
    again = asyncio.Event()

    async def work() -> None:
        looks.append(1)
        if len(looks) < 3:
            raise RuntimeError("can't start new thread")
        again.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(keep_on(work))
    await asyncio.wait_for(again.wait(), 30)
    task.cancel()
    assert caplog.text.count("RuntimeError: can't start new thread") == 2


def test_a_process_that_cannot_be_looked_at_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_many_files(_: int) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(psutil, "Process", too_many_files)
    activity = Activity()
    assert activity.look(1) == activity.look(1) == OwnTime()
    assert not activity.is_working
    assert ProcessMark.of(1) is None
    kill_tree(2**30)


async def test_a_killed_process_did_not_start_in_vain_and_one_that_ends_did(
    quick: None, tmp_path: Path
) -> None:
    for script, in_vain in (("kill -9 $$", False), ("exit 1", True)):
        counted: list[int] = []
        kept = part(
            tmp_path, "sh", "-c", script, prepare=lambda p, to=counted: to.append(p.starts_in_vain)
        )
        kept.start()
        await wait_for("five starts", lambda seen=counted: len(seen) >= 5, 30)
        await kept.stop()
        assert counted[:5] == ([0, 1, 2, 3, 4] if in_vain else [0] * 5)


async def test_a_part_is_given_up_for_its_restarts_since_then_only(
    quick: None, tmp_path: Path
) -> None:
    kept = part(tmp_path, "sleep", "600")
    kept.state.restarts = 100
    answers = iter([False, True])
    kept.start()
    try:
        await kept.wait_ready(lambda: next(answers))
    finally:
        await kept.stop()


async def test_a_part_that_still_starts_is_neither_ended_nor_well(
    quick: None, tmp_path: Path
) -> None:
    kept, looks = part(tmp_path, "sleep", "600"), []
    kept.start()
    try:
        await wait_for("it runs", lambda: kept.pid is not None, 30)

        def reads() -> Look:
            looks.append(1)
            return Look(is_well=False, missing=(Missing("its store", 1.0, OwnTime(600, 600)),))

        watching = asyncio.create_task(kept.watch(reads))
        await wait_for("ten looks", lambda: len(looks) >= 10, 30)
        watching.cancel()
        assert (kept.state.restarts, kept.well, kept.starts_in_vain) == (0, None, 1)
    finally:
        await kept.stop()


def test_a_store_is_set_aside_once_until_nats_was_well(
    heeler: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Nats, "listens", lambda _: True)
    monkeypatch.setattr(Nats, "ready", lambda _: True)
    bus = cast(Part, SimpleNamespace(starts_in_vain=STARTS_IN_VAIN_MAX, started_at=0.0))
    nats = NatsPart(heeler._nats, lambda *_: bus, heeler._notify)
    nats.mend(bus)
    (first,) = set_aside(heeler)
    heeler._nats.store.mkdir()
    nats.mend(bus)
    assert set_aside(heeler) == [first]
    assert heeler._nats.store.exists()

    assert nats.look(bus, lambda: True).is_well
    nats.mend(bus)
    (second,) = set_aside(heeler)
    assert second != first


def test_nats_that_reads_its_store_has_the_time_of_its_own_that_reading_takes(
    heeler: Supervisor,
) -> None:
    bus = cast(Part, SimpleNamespace(started_at=1000.0))
    nats = NatsPart(heeler._nats, lambda *_: bus, heeler._notify)
    with socket.socket() as port:
        port.bind(("127.0.0.1", heeler._nats.port))
        (missing,) = nats.look(bus, lambda: True).missing
        assert missing.bound == SERVER_STARTS_WITHIN
        port.listen()
        assert heeler._nats.listens()


def test_a_start_of_nats_fails_for_what_it_says_and_not_for_reading() -> None:
    problem: Exception | str = ConnectionRefusedError()
    passed = OwnTime()

    class Server:
        def problem(self) -> str:
            if isinstance(problem, Exception):
                raise problem
            return problem

    class Bus:
        """NATS as a part, whose own time is set by hand."""

        pid = 1

        def allowance(self, bound: OwnTime) -> Any:
            return SimpleNamespace(is_spent=lambda _: passed.exceeds(bound))

    start = NatsStart(cast(Nats, Server()), cast(Part, Bus()))
    passed = OwnTime(0.0, 500.0)
    assert not start.ready()
    for said, bound in ((TimeoutError(), SERVER_STARTS_WITHIN), ("no stream", UNWELL_WITHIN)):
        problem, passed = said, bound
        assert not start.ready()
        passed = bound + OwnTime(0.1, 0.0)
        with pytest.raises(Failed, match="nats did not get ready"):
            start.ready()


@pytest.mark.parametrize(("script", "sets_aside"), [("kill -9 $$", False), ("exit 1", True)])
async def test_at_the_start_too_a_store_is_not_blamed_where_nats_is_killed(
    quick: None,
    heeler: Supervisor,
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    sets_aside: bool,
) -> None:
    command = part(heeler._nats.folder, "sh", "-c", script).command
    monkeypatch.setattr(Nats, "command", lambda _: command)
    with pytest.raises(Failed, match="nats did not get ready: it ended again and again"):
        await asyncio.wait_for(NatsPart(heeler._nats, heeler._add, heeler._notify).start(), 30)
    assert bool(set_aside(heeler)) == sets_aside


async def test_migrations_that_take_too_long_are_ended_and_named(
    quick: None, heeler: Supervisor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(migration_run, "MIGRATES_WITHIN", OwnTime(10.0, 0.01))
    monkeypatch.setattr(
        migration_run, "python_command", lambda *_, **__: part(tmp_path, "sleep", "600").command
    )
    migrating = migration_run.run_migrations(
        heeler._settings, None, nats_url="", database_url="", passwords={}
    )
    with pytest.raises(Failed, match=r"the migrations took more than .* 0\.01 s idle") as failure:
        await asyncio.wait_for(migrating, 30)
    assert failure.value.part == "migrate"
    assert not [
        child
        for child in psutil.Process().children()
        if child.status() != psutil.STATUS_ZOMBIE and "600" in child.cmdline()
    ]


@dataclasses.dataclass
class Waiting:
    """Somebody who waits for a start, whose clock and processes are set by hand."""

    settings: Settings
    state: InstanceState
    now: float = 0.0
    doing: str = process_activity.IDLE
    up_at: float = float("inf")

    def wait(self, stalled_seconds_max: float) -> InstanceState:
        lives = cast(Any, SimpleNamespace(poll=lambda: None, pid=os.getpid()))
        return up._wait_healthy(self.settings, lives, stalled_seconds_max, None)


@pytest.fixture
def waiting(heeler: Supervisor, monkeypatch: pytest.MonkeyPatch) -> Waiting:
    state = dataclasses.replace(heeler._state, phase="migrating")
    made = Waiting(heeler._settings, state)

    def current(*_: object) -> InstanceState:
        if made.now > made.up_at:
            state.phase = "running"
        return state

    def awaited(*_: object) -> dict[str, int | None]:
        return {} if state.phase == "running" else {"memory": 1}

    def sleep(seconds: float) -> None:
        made.now += 1.0

    def look(activity: Activity, _: int | None) -> OwnTime:
        activity.doing = made.doing
        return OwnTime()

    clock = SimpleNamespace(monotonic=lambda: made.now, sleep=sleep)
    for module in (up, launch_progress):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(Activity, "look", look)
    monkeypatch.setattr(up, "_current", current)
    monkeypatch.setattr(up, "_awaited", awaited)
    return made


@pytest.mark.parametrize("doing", ["uses the processor", "waits for a processor"])
def test_up_waits_for_as_long_as_something_moves_and_says_for_what(
    waiting: Waiting, doing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    waiting.doing, waiting.up_at = doing, 3_600.0
    assert waiting.wait(STALLED_SECONDS_MAX) is waiting.state
    assert f"30.0 s  waiting for memory ({doing})" in capsys.readouterr().out


def test_up_gives_up_when_nothing_has_moved_for_a_minute(waiting: Waiting) -> None:
    with pytest.raises(LaunchError, match="there was no progress for 61 s"):
        waiting.wait(STALLED_SECONDS_MAX)
    assert STALLED_SECONDS_MAX < waiting.now < STALLED_SECONDS_MAX + 3.0


def test_up_does_not_wait_for_a_part_that_is_started_in_vain_again_and_again(
    waiting: Waiting,
) -> None:
    waiting.doing = "uses the processor"
    waiting.state.parts["memory"] = memory = PartState("memory")

    def restart(*_: object) -> set[str]:
        memory.restarts += 1
        memory.mark = ProcessMark(memory.restarts, float(memory.restarts))
        return real(*_)

    real, up._restarted_in_vain = up._restarted_in_vain, restart
    try:
        with pytest.raises(LaunchError, match="no progress"):
            waiting.wait(STALLED_SECONDS_MAX)
    finally:
        up._restarted_in_vain = real
    assert waiting.now < 2 * STALLED_SECONDS_MAX


def test_down_waits_for_a_supervisor_while_its_parts_end(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    signals: list[int] = []
    monkeypatch.setattr(up.os, "kill", lambda _, number: signals.append(number))
    waiting.doing = "waits for a disk"

    class Mark:
        """A supervisor that ends after ten minutes."""

        pid = 1

        def wait_gone(self, seconds_max: float) -> bool:
            waiting.now += 1.0
            return waiting.now > 600.0

    up._stop_supervisor(waiting.settings, cast(Any, Mark()))
    assert signals == [signal.SIGTERM]
    assert "waiting for supervisor (waits for a disk)" in capsys.readouterr().out


SERVES = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("is_frozen", [True, False], ids=["frozen", "hung"])
def test_down_kills_a_supervisor_that_stands_still_while_its_parts_serve(
    heeler: Supervisor, monkeypatch: pytest.MonkeyPatch, is_frozen: bool
) -> None:
    monkeypatch.setattr(up, "STALLED_SECONDS_MAX", 3.0)
    still = subprocess.Popen([sys.executable, "-c", SERVES], stdout=subprocess.PIPE, text=True)
    assert still.stdout is not None
    part = int(still.stdout.readline())
    try:
        memory = PartState("memory", mark=ProcessMark.of(part))
        state = dataclasses.replace(heeler._state, phase="running", parts={"memory": memory})
        monkeypatch.setattr(up, "read_state", lambda _: state)
        if is_frozen:
            os.kill(still.pid, signal.SIGSTOP)
        mark = ProcessMark.of(still.pid)
        assert mark is not None
        up._stop_supervisor(heeler._settings, mark)
        assert still.wait(10) == -signal.SIGKILL
    finally:
        still.kill()
        os.kill(part, signal.SIGKILL)
