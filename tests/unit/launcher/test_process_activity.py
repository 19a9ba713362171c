"""What a process does, and the time that is its own: on a slow machine that is less than passes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from deploy.embedded import process_activity, supervised_process
from deploy.embedded.process_activity import (
    DISK,
    DISK_SECONDS_MAX,
    LOOK_GAP_SECONDS_MAX,
    Activity,
    Allowance,
    OwnTime,
    ProcessSample,
    sample_process,
)
from deploy.embedded.state import PartState
from deploy.embedded.subprocesses import Command, wait_within
from deploy.embedded.supervised_process import Look, Missing, Part
from tests.waiting import wait_for

LOOPS = [sys.executable, "-c", "while True: pass"]


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[ProcessSample]:
    """What the next looks see; each is used once."""
    samples: list[ProcessSample] = []
    monkeypatch.setattr(process_activity, "sample_process", lambda *_, **__: samples.pop(0))
    return samples


IDLE = ProcessSample(1, 0.0, 5.0, 5.0, 100, wants="", is_stopped=False)


def own_time(seen: list[ProcessSample], *samples: ProcessSample) -> tuple[OwnTime, Activity]:
    """The own time at the last of these looks."""
    seen.extend(samples)
    activity = Activity()
    found = [activity.look(1) for _ in samples]
    return found[-1], activity


def test_the_time_of_a_process_that_wants_nothing_is_its_own(seen: list[ProcessSample]) -> None:
    own, activity = own_time(seen, IDLE, replace(IDLE, at=3.0, switches=101))
    assert own == OwnTime(0.0, 3.0)
    assert not activity.is_working


@pytest.mark.parametrize("wanted", ["a processor", "a disk"])
def test_a_process_that_waits_for_the_machine_has_no_time_of_its_own(
    seen: list[ProcessSample], wanted: str
) -> None:
    own, activity = own_time(seen, replace(IDLE, wants=wanted), replace(IDLE, at=3.0, wants=wanted))
    assert own == OwnTime()
    assert activity.is_working
    assert activity.doing == f"waits for {wanted}"

    own, _ = own_time(seen, replace(IDLE, wants=wanted), replace(IDLE, at=3.0))
    assert own == OwnTime(), "its answer is on its way"


def test_a_disk_that_never_answers_is_not_waited_for_for_ever(seen: list[ProcessSample]) -> None:
    looks = int(DISK_SECONDS_MAX / LOOK_GAP_SECONDS_MAX) + 2
    waits = [replace(IDLE, at=LOOK_GAP_SECONDS_MAX * look, wants=DISK) for look in range(looks)]
    own, activity = own_time(seen, *waits)
    assert own == OwnTime(0.0, LOOK_GAP_SECONDS_MAX)
    assert not activity.is_working

    reads = [replace(each, processor_seconds=each.at * 0.03) for each in waits]
    own, activity = own_time(seen, *reads)
    assert own.idle_seconds == 0.0, "it gets on, however slow the disk is"
    assert activity.is_working


def test_of_a_process_that_is_slowed_by_signals_only_the_processor_time_counts(
    seen: list[ProcessSample],
) -> None:
    stopped = replace(IDLE, is_stopped=True)
    later = replace(stopped, at=3.0, processor_seconds=5.09, switches=160)
    own, activity = own_time(seen, stopped, later)
    assert own == OwnTime(pytest.approx(0.09), 0.0)
    assert activity.frozen_seconds == 0.0
    assert activity.is_working


def test_a_process_that_is_stopped_and_does_not_run_is_frozen(seen: list[ProcessSample]) -> None:
    stopped = replace(IDLE, is_stopped=True)
    own, activity = own_time(seen, stopped, replace(stopped, at=3.0), replace(stopped, at=6.0))
    assert own == OwnTime(0.0, 3.0)
    assert activity.frozen_seconds == 6.0
    assert not activity.is_working


def test_a_look_after_a_long_pause_knows_nothing_of_that_time(seen: list[ProcessSample]) -> None:
    own, _ = own_time(seen, IDLE, replace(IDLE, at=LOOK_GAP_SECONDS_MAX + 0.1))
    assert own == OwnTime()


def test_another_process_begins_anew(seen: list[ProcessSample]) -> None:
    own, _ = own_time(seen, IDLE, replace(IDLE, pid=2, at=3.0, processor_seconds=9.0))
    assert own == OwnTime()


@pytest.fixture
def loop() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(LOOPS)
    yield process
    process.kill()
    process.wait()


def test_what_the_kernel_says_of_a_process_that_loops_and_of_one_that_sleeps(
    loop: subprocess.Popen[bytes],
) -> None:
    sleeper = subprocess.Popen(["sleep", "600"])
    try:
        for process, wanted in ((loop, "a processor"), (sleeper, "")):
            deadline = time.monotonic() + 60.0
            while (seen := sample_process(process.pid)) is None or seen.wants != wanted:
                assert time.monotonic() < deadline, seen
                time.sleep(0.01)
    finally:
        sleeper.kill()
        sleeper.wait()
    assert sample_process(sleeper.pid) is None


def test_what_children_do_counts_for_who_works_in_children() -> None:
    parent = subprocess.Popen(["sh", "-c", f"{sys.executable} -c 'while True: pass' & wait"])
    try:
        alone, together = Activity(), Activity(has_children=True)
        of_one, of_all, deadline = OwnTime(), OwnTime(), time.monotonic() + 60.0
        while of_all.processor_seconds < 0.2:
            of_one, of_all = of_one + alone.look(parent.pid), of_all + together.look(parent.pid)
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert of_one.processor_seconds < 0.1
    finally:
        for process in psutil.Process(parent.pid).children():
            process.kill()
        parent.wait()


def test_a_program_that_loops_for_ever_is_killed_after_its_own_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process_activity, "LOOK_AGAIN_SECONDS", 0.01)
    assert wait_within(subprocess.Popen(LOOPS), OwnTime(0.2, 600.0)) == -signal.SIGKILL
    assert wait_within(subprocess.Popen(["true"]), OwnTime()) == 0


def test_an_allowance_is_spent_by_the_process_and_not_by_the_clock(
    seen: list[ProcessSample],
) -> None:
    held = [replace(IDLE, at=float(at), wants="a processor") for at in range(0, 3_000, 3)]
    seen.extend(held)
    allowance = Allowance(OwnTime(60.0, 6.0))
    for _ in held:
        allowance._next_look = 0.0
        assert not allowance.is_spent(1)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervised_process, "LOOK_SECONDS", 0.02)
    for module in (supervised_process, process_activity):
        monkeypatch.setattr(module, "LOOK_AGAIN_SECONDS", 0.02)


def part(folder: Path, *argv: str, stops_within: OwnTime) -> Part:
    command = Command(
        name="memory",
        argv=[*argv],
        environment=dict(os.environ),
        folder=folder,
        log=folder / "memory.log",
        stops_within=stops_within,
    )
    return Part(command, PartState("memory"), lambda: None)


async def test_a_part_that_loops_is_ended_for_its_processor_time_and_less_often_each_time(
    quick: None, tmp_path: Path
) -> None:
    bound = OwnTime(processor_seconds=0.1, idle_seconds=600.0)
    kept = part(tmp_path, *LOOPS, stops_within=bound)
    used: dict[int, float] = {}

    def look() -> Look:
        if (seen := sample_process(kept.pid)) is not None:
            used[seen.pid] = seen.processor_seconds
        return Look(is_well=False, missing=(Missing("an answer", kept.started_at, bound),))

    kept.start()
    watching = asyncio.create_task(kept.watch(look, backs_off=True))
    try:
        await wait_for("it is ended three times", lambda: kept.state.restarts >= 3, 120)
    finally:
        watching.cancel()
        await kept.stop()
    for doublings, seconds in enumerate([*used.values()][:3]):
        assert seconds > bound.processor_seconds * 2**doublings


async def test_a_part_that_ends_slowly_is_not_killed_while_it_works(
    quick: None, tmp_path: Path
) -> None:
    script = (
        "trap 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exit 7' TERM;"
        " : > trapped; while :; do :; done"
    )
    kept = part(tmp_path, "sh", "-c", script, stops_within=OwnTime(600.0, 0.0))
    kept.start()
    await wait_for("its trap", (tmp_path / "trapped").exists, 30)
    process = kept._process
    assert process is not None
    await kept.stop()
    assert process.returncode == 7
