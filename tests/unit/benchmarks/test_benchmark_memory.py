"""The memory of process trees is counted once."""

from __future__ import annotations

import os
import subprocess
import sys

from benchmarks.memory import measured, pss_bytes, table


def test_a_live_process_has_memory_and_a_dead_one_has_none() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()

    assert pss_bytes(os.getpid()) > 1_000_000
    assert pss_bytes(process.pid) == 0


def test_a_process_below_two_roots_counts_in_the_first() -> None:
    found = measured({"first": os.getpid(), "second": os.getpid()})

    assert found["first"] > 0
    assert found["second"] == 0


def test_the_table_judges_the_sum() -> None:
    assert table("one", {"a": 200_000_000, "b": 50_000_000}).endswith("250.0  goal <= 250 MB ok")
    assert "MISSED" in table("one", {"a": 200_000_000, "b": 51_000_000})
