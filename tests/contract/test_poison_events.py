"""Events that a consumer cannot digest: tried a few times, parked; the consumer goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from libs.bus import event_consumer as consumers
from libs.bus import retry_policy
from libs.bus.clock_and_ids import SystemClock
from libs.bus.in_memory import InMemoryBus, InMemoryNetwork
from libs.bus.ports import Bus, BusUnavailable
from libs.bus.retry_policy import ATTEMPTS_MAX
from libs.bus.service_host import Service
from libs.contracts.bus_messages import Accepted, Context, Event
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.unit_of_work import Repository
from tests.contract.ledger import MoneyDeposited, ReplayFollowerLetter, context, project
from tests.contract.ledger_follower import Follower, money, positions
from tests.contract.wires import HOLDERS, Ledger
from tests.waiting import wait_for


@pytest.fixture(autouse=True)
def short_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry_policy, "PAUSE_SECONDS", (0.05, 0.1, 0.15))
    monkeypatch.setattr(consumers, "POLL_SECONDS", 0.02)


class PoisonedFollower(Follower):
    """A follower that cannot digest some deposits."""

    def __init__(self, database: InMemoryDatabase, bus: Bus, *poisoned: int) -> None:
        super().__init__(database, bus, f"f{next(HOLDERS)}")
        self.poisoned = {*poisoned}
        self.tried: list[int] = []

    async def react(self, event: Event, cause: Context) -> None:
        assert isinstance(event, MoneyDeposited)
        self.tried.append(event.cents)
        if event.cents in self.poisoned:
            raise ValueError(f"{event.cents} cents are indigestible")
        await super().react(event, cause)


async def turn_until(follower: Follower, done: Callable[[], bool]) -> None:
    async def ask() -> bool:
        await follower.consumer.turn()
        return done()

    await wait_for("the consumer is there", ask)


async def deposits(ledger: Ledger, number: int) -> None:
    for cents in range(1, number + 1):
        await ledger.store.commit(money("a", cents, cents))
    await ledger.store.number_log()


async def test_an_event_that_cannot_be_digested_is_parked_and_the_consumer_goes_on() -> None:
    ledger = Ledger()
    await deposits(ledger, 6)
    follower = PoisonedFollower(ledger.database, InMemoryBus(InMemoryNetwork()), 3, 5)
    await turn_until(follower, lambda: positions(ledger) == {"ledger": 6})
    assert [cents for cents, _ in follower.told] == [1, 2, 4, 6]
    assert [follower.tried.count(cents) for cents in (1, 3, 5, 6)] == [1, 4, 4, 1]
    letters: list[Any] = ledger.database.schema("follower").rows("dead_letters")
    assert [letter["payload"]["cents"] for letter in letters] == [3, 5]
    first = letters[0]
    assert (first["service"], first["kind"]) == ("follower", "event")
    assert first["name"] == "ledger.money.deposited"
    assert first["subject"] == "ledger.event.money.deposited.org-1.a"
    assert first["context"]["position"] == 3
    assert (first["attempts"], first["error_class"]) == (4, "ValueError")
    assert ledger.database.schema("follower").rows("attempts") == []


async def test_an_event_that_ends_its_consumers_is_parked_too() -> None:
    """Each successor knows from the count that somebody began before and did not come back."""
    ledger = Ledger()
    await deposits(ledger, 2)
    bus = InMemoryBus(InMemoryNetwork())
    deaths = 0
    for _ in range(10):
        follower = PoisonedFollower(ledger.database, bus)
        follower.store.holder = f"f{next(HOLDERS)}"
        if positions(ledger).get("ledger") == 2:
            break

        async def die(event: Event, cause: Context) -> None:
            raise asyncio.CancelledError

        follower.consumer.reactions["money.deposited"] = die
        try:
            await follower.consumer.react_to_page()
        except asyncio.CancelledError:
            deaths += 1
    assert positions(ledger) == {"ledger": 2}
    assert deaths == 2 * ATTEMPTS_MAX
    letters: list[Any] = ledger.database.schema("follower").rows("dead_letters")
    assert [letter["error_class"] for letter in letters] == ["ProcessDied"] * 2


async def test_a_consumer_waits_for_a_world_that_is_away_however_long() -> None:
    ledger = Ledger()
    await deposits(ledger, 1)
    follower = PoisonedFollower(ledger.database, InMemoryBus(InMemoryNetwork()))
    react = follower.consumer.reactions["money.deposited"]

    async def away(event: Event, cause: Context) -> None:
        raise BusUnavailable("memory is away")

    follower.consumer.reactions["money.deposited"] = away
    for _ in range(3 * ATTEMPTS_MAX):
        with pytest.raises(BusUnavailable):
            await follower.consumer.turn()
    follower.consumer.reactions["money.deposited"] = react
    await follower.consumer.turn()
    assert follower.told == [(1, "a")]


async def test_a_replayed_event_is_reacted_to_again() -> None:
    ledger = Ledger()
    await deposits(ledger, 3)
    bus = InMemoryBus(InMemoryNetwork())
    store = InMemoryEventStore(ledger.database, "follower", "follower-service")
    service = Service("follower", Repository(store, "follower", project), bus, SystemClock())
    follower = PoisonedFollower(ledger.database, bus, 2)
    await service.handle({})
    await service.follow("ledger", {MoneyDeposited: follower.react})
    follower.consumer = service.consumers[0]
    await turn_until(follower, lambda: positions(ledger) == {"ledger": 3})
    rows: list[Any] = ledger.database.schema("follower").rows("dead_letters")
    replay = ReplayFollowerLetter(letter_id=rows[0]["id"])
    assert await bus.request(replay, context("r1")) == Accepted(result={"status": "parked"})
    follower.poisoned.clear()
    for number in (2, 3):
        reply = await bus.request(replay, context(f"r{number}"))
        assert reply == Accepted(result={"status": "replayed"})
    assert [cents for cents, _ in follower.told] == [1, 3, 2]
