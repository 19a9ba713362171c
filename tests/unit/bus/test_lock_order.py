"""Decisions that take locks in different orders do not wait for each other for ever."""

from __future__ import annotations

import asyncio

import pytest

from libs.bus.aggregate_locks import AggregateLocks
from libs.contracts.bus_messages import Context
from libs.eventstore import unit_of_work
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.ports import VersionConflict
from libs.eventstore.unit_of_work import Repository


async def test_a_deletion_and_a_fork_that_wait_for_each_other_both_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An agent is deleted with its own conversation and with the fork of that, while the command of
    the fork, which came again, waits for the agent's own."""
    monkeypatch.setattr(unit_of_work, "LOCK_SECONDS_MAX", 0.05)
    store = InMemoryEventStore(InMemoryDatabase(lambda: 0.0), "agent", "p-1")
    repository = Repository(store, "agent", lambda *_: None)
    locks, both = AggregateLocks(), asyncio.Barrier(2)

    async def decide(target: str, *others: str) -> int:
        """As the dispatcher does: again where somebody else is first; how often it took."""
        async with locks.hold(target):
            for decisions in range(1, 20):
                work = repository.work(Context(target, org="org-1"))
                try:
                    for number, other in enumerate(others):
                        if number == len(others) - 1 and decisions == 1:
                            await both.wait()
                        await work.hold(locks.hold(other))
                    return decisions
                except VersionConflict:
                    continue
                finally:
                    await work.release()
        raise AssertionError("it never was the only one")

    async with asyncio.timeout(10):
        took = await asyncio.gather(decide("agent", "own", "fork"), decide("fork", "own"))
    assert max(took) > 1
    assert locks.queues == {}
