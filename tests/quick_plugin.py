"""`--quick`: of the tests named, those that need no server and little time.

Contracts are tested in memory and in the simulator, and the simulator runs a few worlds,
as Hypothesis tries a quarter of its histories and values. An end-to-end test that is named runs as
always.
"""

from __future__ import annotations

import pytest
from _pytest.unittest import TestCaseFunction
from hypothesis import settings

REAL_SERVERS = {"postgres_server", "nats_server"}
REAL_WORLDS = {"postgres", "nats", "the SDK"}
REAL_FILES = ("tests/contract/test_nats_outage.py", "tests/contract/test_postgres_store.py")
WORLDS = "tests/sim/test_simulator.py::test_r38_nothing_is_lost_doubled_or_stuck_in_any_world"
WORLDS_OF_A_DOSE = 8
FEWER_HISTORIES = 4


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="leave out what needs real servers")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--quick"):
        all_values = settings.get_profile(settings.get_current_profile_name())
        few = all_values.max_examples // FEWER_HISTORIES
        settings.register_profile("quick", max_examples=few)
        settings.load_profile("quick")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--quick"):
        left_out = [item for item in items if not is_quick(item)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
        for case in {item.cls for item in items if isinstance(item, TestCaseFunction)}:
            all_histories = getattr(case, "settings", None)
            if isinstance(all_histories, settings):
                few = all_histories.max_examples // FEWER_HISTORIES
                case.settings = settings(all_histories, max_examples=few)


def is_quick(item: pytest.Item) -> bool:
    """Whether this test needs no server, or is the walk on real ones."""
    if item.nodeid.startswith("tests/sim/"):
        return item.nodeid == WORLDS
    if item.nodeid.startswith(REAL_FILES):
        return False
    assert isinstance(item, pytest.Function)
    worlds = item.callspec.params.values() if hasattr(item, "callspec") else ()
    chosen = {world for world in worlds if isinstance(world, str)}
    return not (REAL_SERVERS & set(item.fixturenames) or REAL_WORLDS & chosen)
