"""Every test that docs/capabilities.md names can be run as it is written there, and every
capability has one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]
ROWS = [
    line
    for line in (CHECKOUT / "docs" / "capabilities.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith(("| id |", "| pain |"))
]
NAMED = re.compile(r"`(tests/[^`]+)`")


@pytest.fixture(scope="module")
def collected() -> set[str]:
    """The ids of all tests in the files that are named, without their parameters, as pytest
    collects them in a process of its own."""
    files = {named.partition("::")[0] for row in ROWS for named in NAMED.findall(row)}
    asked = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    outside = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    done = subprocess.run(
        [*asked, *sorted(files)], cwd=CHECKOUT, env=outside, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return {line.partition("[")[0] for line in done.stdout.splitlines() if "::" in line}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip()[:24])
def test_what_shows_a_capability_can_be_run_as_it_is_written(row: str, collected: set[str]) -> None:
    named = NAMED.findall(row)
    assert named, "a capability without a test is a claim"
    assert set(named) <= collected, f"not collected: {set(named) - collected}"


def test_no_capability_stands_there_twice() -> None:
    ids = [row.split("|")[1].strip() for row in ROWS]
    assert len(ids) == len(set(ids))
