"""What the supervisor does where a part, or itself, cannot do what it should."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest

from deploy.embedded import nats_server, supervised_process, supervisor, up
from deploy.embedded.nats_server import Nats, NatsStart
from deploy.embedded.settings import MIGRATE_SECONDS_MAX, read_settings
from deploy.embedded.state import InstanceState, PartState, ProcessMark
from deploy.embedded.subprocesses import Command, kill_tree
from deploy.embedded.supervised_process import Failed, Part, is_stopped, processor_seconds
from deploy.embedded.supervisor import STARTS_IN_VAIN_MAX, Supervisor, keep_on
from tests.waiting import wait_for


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (supervised_process, supervisor):
        monkeypatch.setattr(module, "LOOK_SECONDS", 0.001)
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
    assert not is_stopped(1)
    assert processor_seconds(1) == 0.0
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
        watching = asyncio.create_task(kept.watch(lambda: cast(None, looks.append(1))))
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
    heeler._parts["nats"] = bus
    heeler._mend_nats(bus)
    (first,) = set_aside(heeler)
    heeler._nats.store.mkdir()
    heeler._mend_nats(bus)
    assert set_aside(heeler) == [first]
    assert heeler._nats.store.exists()

    assert heeler._nats_is_well()
    heeler._mend_nats(bus)
    (second,) = set_aside(heeler)
    assert second != first


def test_nats_that_reads_its_store_is_not_known_to_be_ill(
    heeler: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(supervisor.time, "monotonic", lambda: now)
    heeler._parts["nats"] = cast(Part, SimpleNamespace(started_at=1000.0))
    with socket.socket() as port:
        port.bind(("127.0.0.1", heeler._nats.port))
        assert heeler._nats_is_well() is None
        now += supervisor.NATS_READS_SECONDS_MAX
        assert heeler._nats_is_well() is False
        port.listen()
        assert heeler._nats.listens()


def test_a_start_of_nats_fails_for_what_it_says_and_not_for_reading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    problem: Exception | str = ConnectionRefusedError()

    class Server:
        def problem(self) -> str:
            if isinstance(problem, Exception):
                raise problem
            return problem

    monkeypatch.setattr(nats_server.time, "monotonic", lambda: now)
    start = NatsStart(cast(Nats, Server()))
    assert not start.ready()
    now += 500.0
    assert not start.ready()
    for said, seconds in (
        (TimeoutError(), nats_server.PART_READY_SECONDS_MAX),
        ("no such stream", nats_server.UNWELL_SECONDS_MAX),
    ):
        problem = said
        assert not start.ready()
        now += seconds
        assert not start.ready()
        now += 0.1
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
        await asyncio.wait_for(heeler._start_nats(), 30)
    assert bool(set_aside(heeler)) == sets_aside


async def test_migrations_that_take_too_long_are_ended_and_named(
    heeler: Supervisor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(supervisor, "MIGRATE_SECONDS_MAX", 0.01)
    monkeypatch.setattr(
        supervisor, "python_command", lambda *_, **__: part(tmp_path, "sleep", "600").command
    )
    with pytest.raises(Failed, match=r"the migrations took longer than 0\.01 s") as failure:
        await asyncio.wait_for(heeler._migrate(), 30)
    assert failure.value.part == "migrate"
    assert not [
        child
        for child in psutil.Process().children()
        if child.status() != psutil.STATUS_ZOMBIE and "600" in child.cmdline()
    ]


def test_up_waits_for_migrations_for_as_long_as_the_supervisor_does(
    heeler: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    state = dataclasses.replace(heeler._state, phase="migrating")

    def current(*_: object) -> InstanceState:
        if now > MIGRATE_SECONDS_MAX:
            state.phase = "running"
        return state

    def sleep(_: float) -> None:
        nonlocal now
        now += 10.0

    clock = SimpleNamespace(monotonic=lambda: now, sleep=sleep)
    monkeypatch.setattr(up, "time", clock)
    monkeypatch.setattr(up, "_current", current)
    monkeypatch.setattr(up, "_healthy", lambda *_: True)
    lives = cast(Any, SimpleNamespace(poll=lambda: None))

    assert up._wait_healthy(heeler._settings, lives, 60.0, None) is state
    assert now > MIGRATE_SECONDS_MAX
