"""The parts of a service together, in memory and on NATS."""

from __future__ import annotations

from functools import partial

from libs.bus.clock_and_ids import SystemClock
from libs.bus.event_consumer import React
from libs.bus.in_memory import InMemoryBus, InMemoryNetwork
from libs.bus.ports import Bus
from libs.bus.service_host import Service
from libs.contracts.bus_messages import Accepted, Context, Event
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.unit_of_work import Repository
from tests.contract.ledger import (
    AT,
    AccountOpened,
    Deposit,
    MoneyDeposited,
    context,
    deposit,
    project,
)
from tests.contract.wires import Ledger, Wires
from tests.waiting import wait_for


async def test_a_service_answers_publishes_follows_and_gives_its_leases_back(
    wires: Wires,
) -> None:
    ledger = Ledger()
    told: list[tuple[int, str]] = []
    services: list[Service] = []

    async def react(event: Event, cause: Context) -> None:
        assert isinstance(event, MoneyDeposited)
        told.append((event.cents, cause.correlation_id))

    async def wire(bus: Bus) -> None:
        follower_store = InMemoryEventStore(ledger.database, "follower", "follower-1")
        follower = Repository(follower_store, "follower", project)
        services.append(Service("ledger", ledger.repository, bus, SystemClock()))
        services.append(Service("follower", follower, bus, SystemClock()))
        await services[0].handle({Deposit: deposit})
        await services[1].follow("ledger", {MoneyDeposited: react})

    bus = await wires.process(wire)
    for service in services:
        service.start()
    client = await wires.process()
    for number in range(1, 11):
        command = Deposit(account_id="a", cents=number)
        assert isinstance(await client.request(command, context(f"m{number}")), Accepted)
    await wait_for("all told", lambda: len(told) == 10)
    assert told == [(number, f"for-m{number}") for number in range(1, 11)]
    await bus.stop_serving()
    for service in services:
        await service.stop()
    assert await ledger.store.take_lease("relay") == 2
    successor = InMemoryEventStore(ledger.database, "follower", "follower-2")
    assert await successor.take_lease("consumer.ledger") == 2


async def test_whoever_begins_to_react_in_the_place_of_another_is_told() -> None:
    now = [0.0]
    database, told = InMemoryDatabase(lambda: now[0]), list[str]()
    network, services = InMemoryNetwork(), list[Service]()
    for name in ("first", "second"):
        store = InMemoryEventStore(database, "follower", name)
        repository = Repository(store, "follower", project)
        services.append(Service("follower", repository, InMemoryBus(network), SystemClock()))
        reactions: dict[type[Event], React] = {MoneyDeposited: nothing_more}
        await services[-1].follow("ledger", reactions, partial(told.append, name))
    for service in (services[0], services[0], services[1]):
        await lead(service)
    assert told == ["first"], "it leads, and goes on doing so"
    now[0] += 1_000.0  # the first one says nothing any more
    await lead(services[1])
    assert told == ["first", "second"]


async def nothing_more(event: Event, cause: Context) -> None:
    """React by nothing."""


async def lead(service: Service) -> None:
    """Have its consumer take its turn."""
    [consumer] = service.consumers
    consumer.notification.notify()
    await consumer.turn()


async def test_one_consumer_reads_a_log_however_many_follow_it() -> None:
    database, told = InMemoryDatabase(lambda: 0.0), list[str]()
    store = InMemoryEventStore(database, "follower", "follower-1")
    bus = InMemoryBus(InMemoryNetwork())
    service = Service("follower", Repository(store, "follower", project), bus, SystemClock())

    async def first(event: Event, cause: Context) -> None:
        told.append(f"first of {cause.message_id}")

    async def second(event: Event, cause: Context) -> None:
        told.append(f"second of {cause.message_id}")

    await service.follow("ledger", {MoneyDeposited: first})
    await service.follow("ledger", {MoneyDeposited: second, AccountOpened: first})
    [consumer] = service.consumers
    opened = AccountOpened(originator_id="a", originator_version=1, timestamp=AT, owner="Ada")
    await consumer.reactions["money.deposited"](opened, context("m1"))
    await consumer.reactions["account.opened"](opened, context("m2"))
    assert told == ["first of m1", "second of m1", "first of m2"]
