"""The CPU meter counts whole process trees once."""

import os
import subprocess
import sys

import pytest

from benchmarks import cpu
from benchmarks.cpu import (
    QUIET_LOOK_SECONDS,
    QUIET_SHARE_OF_A_CORE,
    QUIET_WAIT_SECONDS_MAX,
    CpuMeter,
    roots_of_pids,
)

# More than is looked for: the system counts in ticks of 0.01 s, and rounds the user and the system
# time of a process and of its children down.
BURN = "import time\nwhile time.process_time() < 0.35: pass\n"
PARENT_OF_A_DEAD_CHILD = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {BURN!r}])
print("done", flush=True)
sys.stdin.read()
"""
PARENT_OF_A_LIVE_CHILD = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {BURN!r} + "print('done', flush=True);input()"])
child.wait()
"""


@pytest.mark.parametrize("program", [PARENT_OF_A_DEAD_CHILD, PARENT_OF_A_LIVE_CHILD])
def test_children_count_whether_they_live_or_not(program):
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe) as process:
        assert process.stdout.readline() == b"done\n"
        ((name, seconds),) = CpuMeter(roots_of_pids([process.pid])).read().items()
        process.stdin.write(b"\n")
    assert name.endswith(f" {process.pid}")
    assert 0.3 <= seconds < 0.6


def test_a_process_in_two_trees_counts_in_the_first():
    readings = CpuMeter(lambda: {"first": os.getpid(), "second": os.getpid()}).read()
    assert readings["first"] > 0
    assert readings["second"] == 0


def test_a_process_that_is_gone_counts_nothing():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert CpuMeter(lambda: {"gone": process.pid}).read() == {"gone": 0}


class Readings(CpuMeter):
    """What a tree has used, as it is told: so much more at each look, then nothing more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *used: float) -> None:
        super().__init__(lambda: {})
        self.used, self.total, self.seconds = list(used), 0.0, 0.0
        monkeypatch.setattr(cpu.asyncio, "sleep", self.sleep)
        monkeypatch.setattr(cpu.time, "monotonic", lambda: self.seconds)

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def read(self) -> dict[str, float]:
        found, self.total = self.total, self.total + (self.used.pop(0) if self.used else 0.0)
        return {"tree": found}


async def test_a_tree_is_quiet_when_it_hardly_uses_anything_between_two_looks(monkeypatch):
    little = 0.5 * QUIET_SHARE_OF_A_CORE * QUIET_LOOK_SECONDS
    busy = Readings(monkeypatch, 0.2, 0.1, 0.05, little, 0.2)
    await busy.wait_quiet()
    assert busy.seconds == pytest.approx(4 * QUIET_LOOK_SECONDS), "not before it is"
    idle = Readings(monkeypatch)
    await idle.wait_quiet()
    assert idle.seconds == QUIET_LOOK_SECONDS, "and no later"


async def test_a_tree_that_is_never_quiet_is_waited_for_so_long_and_no_longer(monkeypatch):
    busy = Readings(monkeypatch, *[1.0] * 1_000)
    await busy.wait_quiet()
    assert busy.seconds == pytest.approx(QUIET_WAIT_SECONDS_MAX, abs=QUIET_LOOK_SECONDS)
