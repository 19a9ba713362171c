"""The CPU meter counts whole process trees once."""

import os
import subprocess
import sys

import pytest

from benchmarks.cpu import CpuMeter, roots_of_pids

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


async def test_an_idle_tree_is_quiet():
    await CpuMeter(lambda: {}).wait_quiet()
