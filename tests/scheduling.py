"""Which tests stay in one worker: those of one file, or with one Heeler to share."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NETWORK = "network_proves"  # the fixture of tests whose Heeler has two processes of each service
# What takes longest begins first, so that no worker is busy with it when the others are done.
FRAGILE = "fragile"  # the fixture of tests whose Heeler dies and is hurt
E2E_HALVES = ("tests/e2e, first half", "tests/e2e, second half")
SECOND_HALF = "tests/e2e/test_limits.py"  # its first file
LONGEST = (
    *E2E_HALVES,
    NETWORK,
    FRAGILE,
    "tests/integration/test_launcher.py",
    "tests/sim/test_simulator.py",
    "tests/integration/test_containers.py",
    "tests/fuzz/test_fuzz.py",
    "tests/e2e/test_compose.py",
    "tests/e2e/test_one_process.py",
    "tests/contract/test_postgres_store.py",
    "tests/unit/agent/test_providers.py",
    "tests/contract/test_older_processes.py",
    "tests/contract/test_bus.py",
    "tests/unit/api/test_http_protocol.py",
    "tests/contract/test_poison.py",
)
OF_THEIR_OWN = ("new_heeler(", "HeelerInstance(", "Composed(")


def longest_first(items: list[pytest.Item]) -> None:
    """The others stay in the order of `testpaths`."""
    places = {name: place for place, name in enumerate(LONGEST)}

    def place(item: pytest.Item) -> int:
        return places.get(together(item.nodeid.partition("::")[0]), len(LONGEST))

    items.sort(key=place)


@cache
def together(file: str) -> str:
    """The name that a file has in common with those which share its Heeler. The end-to-end tests
    have two, so that no worker is busy with them when the others are done."""
    folder = file.rpartition("/")[0]
    text = (ROOT / file).read_text() if folder in ("tests/chaos", "tests/e2e") else ""
    if folder == "tests/e2e" and f"{FRAGILE}: Fragile" in text:
        return FRAGILE
    if folder == "tests/chaos" and NETWORK in text:
        return NETWORK
    if folder == "tests/e2e" and not any(own in text for own in OF_THEIR_OWN):
        return E2E_HALVES[file >= SECOND_HALF]
    return file
