"""Erasure follows a log at a distance, and reads each part of it once (R43)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from libs.bus import erasure
from libs.bus.erasure import Erasure
from libs.bus.in_memory import InMemoryBus, InMemoryNetwork
from libs.eventstore.ports import ERASED, Commit, EventStore, UpstreamPage
from tests.clock_and_ids import ManualClock
from tests.contract.ledger import MoneyDeposited, deposited, opened
from tests.contract.worlds import World

KEPT_SECONDS = 3_600.0


class Reading:
    """Notes how the log is read."""

    def __init__(self, store: EventStore) -> None:
        self.read_upstream_of_store = store.read_upstream
        self.positions: list[int] = []

    async def read_upstream(
        self, upstream: str, after: int, topics: list[str], limit: int = 1_000
    ) -> UpstreamPage:
        self.positions.append(after)
        return await self.read_upstream_of_store(upstream, after, topics, limit)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def ended(store: EventStore, clock: ManualClock, *names: str) -> None:
    """Give accounts the event that ends them here, and number it."""
    for name in names:
        await store.commit(Commit([opened(name, 1)]))
        end = deposited(name, 2, '{"cents": 5}', 1)
        await store.commit(Commit([replace(end, occurred_at=clock.now())]))
    await store.number_log()


async def swept(policy: Erasure, clock: ManualClock, seconds: float) -> None:
    """Let some time pass, with a sweep now and then."""
    until = clock.seconds + seconds
    while clock.seconds < until:
        clock.seconds += 60.0
        await policy.sweep()


async def test_a_log_behind_a_deletion_that_is_kept_is_read_once(
    world: World, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = world.store()
    await ended(store, clock, "a", "b")
    reading = Reading(store)
    monkeypatch.setattr(store, "read_upstream", reading.read_upstream)
    policy = Erasure(
        *(world.ledger, store, InMemoryBus(InMemoryNetwork()), clock),
        ends=[MoneyDeposited],
        after_seconds=KEPT_SECONDS,
    )
    await swept(policy, clock, KEPT_SECONDS - 60.0)
    assert reading.positions == [0], "both are kept: the log is not read again"
    await ended(store, clock, "c")
    await swept(policy, clock, 120.0)
    erased = [(await store.load(name)).events[0].metadata for name in ("a", "b", "c")]
    assert [ERASED in metadata for metadata in erased] == [True, True, False]
    await swept(policy, clock, KEPT_SECONDS - 600.0)
    assert len(reading.positions) <= 3, "the third is kept: the log is not read again"
    await swept(policy, clock, 1_200.0)
    assert ERASED in (await store.load("c")).events[0].metadata


async def test_what_another_process_has_erased_is_not_looked_at_again(
    world: World, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasure, "PAGE_EVENTS_MAX", 2)
    first, second = (
        Erasure(
            *(world.ledger, world.store(holder), InMemoryBus(InMemoryNetwork()), clock),
            ends=[MoneyDeposited],
            after_seconds=KEPT_SECONDS,
        )
        for holder in ("process-1", "process-2")
    )
    store = first.store
    await ended(store, clock, "a", "b")
    await first.sweep()
    await first.leadership.give_back()
    clock.ahead += KEPT_SECONDS
    await swept(second, clock, 60.0)
    await second.leadership.give_back()
    await ended(store, clock, "c")
    clock.ahead += KEPT_SECONDS
    await swept(first, clock, 120.0)
    assert ERASED in (await store.load("c")).events[0].metadata
    assert await store.position(erasure.POSITION) == 6
