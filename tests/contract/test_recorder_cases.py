"""The recorder test cases that the package `eventsourcing` ships, over our event stores.

What is not run has another meaning here, or none:

* `optional_test_insert_subscribe`: a store has no subscriptions (`recorder.py`).
* `test_performance` and `test_concurrent_throughput` print times, and check nothing that
  `test_concurrent_no_conflicts` does not. Ours are measured by `make bench-store`.
* Snapshots: the package keeps all of them, in a second aggregate recorder. Here a commit replaces
  the one whose state has the same form (`test_log_and_history.py`).
* Factories, mappers, transcoders and ciphers: a payload is JSON, and the wiring of its service
  makes a store.
"""

from __future__ import annotations

import asyncio
from unittest import TestCase

import pytest
from eventsourcing.tests import persistence

from tests.contract.recorder import StoreAggregateRecorder, StoreProcessRecorder
from tests.contract.worlds import World

CASES: dict[type[TestCase], list[str]] = {
    persistence.AggregateRecorderTestCase: ["test_insert_and_select"],
    persistence.ApplicationRecorderTestCase: ["test_concurrent_no_conflicts", "test_insert_select"],
    persistence.NonInterleavingNotificationIDsBaseCase: ["test"],
    persistence.TrackingRecorderTestCase: ["test_insert_tracking", "test_wait"],
    persistence.ProcessRecorderTestCase: [
        "test_has_tracking_id",
        "test_insert_select",
        "test_raises_when_lower_inserted_later",
    ],
}
MEASUREMENTS = {"test_concurrent_throughput", "test_performance"}


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, names in CASES.items() for name in names]
)
async def test_a_store_passes_the_test_case_of_a_recorder(
    world: World, kind: type[TestCase], name: str
) -> None:
    aggregates_only = kind is persistence.AggregateRecorderTestCase
    recorder_of = StoreAggregateRecorder if aggregates_only else StoreProcessRecorder
    recorder = recorder_of(world, asyncio.get_running_loop())
    case = type(kind.__name__, (kind,), {"create_recorder": lambda _: recorder})(name)
    await asyncio.to_thread(getattr(case, name))


@pytest.mark.parametrize("kind", CASES)
def test_each_test_case_of_a_recorder_is_run_or_measures(kind: type[TestCase]) -> None:
    shipped = {name for name in dir(kind) if name.startswith("test")}
    assert shipped - MEASUREMENTS == set(CASES[kind])
