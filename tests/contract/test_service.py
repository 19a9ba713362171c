"""The parts of a service together, in memory and on NATS."""

from __future__ import annotations

from libs.bus.clock_and_ids import SystemClock
from libs.bus.ports import Bus
from libs.bus.service_host import Service
from libs.contracts.bus_messages import Accepted, Context, Event
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.unit_of_work import Repository
from tests.contract.ledger import Deposit, MoneyDeposited, context, deposit, project
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
