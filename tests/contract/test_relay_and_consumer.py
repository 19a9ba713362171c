"""From a commit to whoever follows: the relay publishes in order, a consumer misses nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest

from libs.bus import event_consumer as consumers
from libs.bus import relay as relays
from libs.bus.background_loops import forever
from libs.bus.clock_and_ids import SystemClock
from libs.bus.in_memory import InMemoryBus, InMemoryNetwork
from libs.bus.ports import Notify
from libs.bus.relay import Relay
from libs.contracts.bus_messages import Context, Event
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.ports import LEASE_SECONDS, Commit, StoredEvent, StoreUnavailable
from libs.telemetry.metrics import REGISTRY
from tests.contract.ledger import AT, Deposit, context, deposit, deposited, opened
from tests.contract.ledger_follower import Follower, money, positions
from tests.contract.wires import Ledger, Wires, nats_wires
from tests.servers import NatsServer
from tests.waiting import wait_for

type ActiveRun = Callable[[], Awaitable[None]]


@pytest.fixture(autouse=True)
def quick_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relays, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(consumers, "POLL_SECONDS", 0.02)


@asynccontextmanager
async def turning(*turns: ActiveRun) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Loops that run as they do in a service."""
    tasks = [asyncio.create_task(forever("loop", turn, SystemClock())) for turn in turns]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


# The relay


async def test_the_relay_publishes_every_event_in_order_with_its_position(wires: Wires) -> None:
    ledger = Ledger()
    bus = await wires.process()
    relay = Relay(ledger.store, bus, "ledger")
    async with turning(relay.turn):
        for version in range(1, 51):
            await ledger.store.commit(Commit([opened("a", version)]))
            relay.notification.notify()
        await wait_for("all published", lambda: ledger.database.schema("ledger").published == 50)
    published = await wires.published("ledger")
    assert len(published) == 50
    for number, (subject, payload, sent) in enumerate(published, start=1):
        assert subject == "ledger.event.account.opened.org-1.a"
        assert payload == {"owner": "Ada"}
        assert sent["heeler-position"] == str(number)
        assert sent["Nats-Msg-Id"] == sent["ce-id"] == f"a.{number}"
        assert (sent["ce-type"], sent["ce-source"]) == ("ledger.account.opened", "ledger")
        assert (sent["ce-subject"], sent["ce-time"]) == ("a", AT.isoformat())
        assert (sent["heeler-org"], sent["heeler-actor"]) == ("org-1", "user-1")
        assert (sent["heeler-aggregate"], sent["heeler-version"]) == ("a", str(number))
        assert (sent["heeler-schema-version"], sent["causation-id"]) == ("1", "c-1")


async def test_the_relay_publishes_more_than_a_page(wires: Wires) -> None:
    ledger = Ledger()
    await ledger.store.commit(Commit([opened("a", version) for version in range(1, 1_202)]))
    async with turning(Relay(ledger.store, await wires.process(), "ledger").turn):
        await wait_for("all published", lambda: ledger.database.schema("ledger").published == 1_201)
    positions = [sent["heeler-position"] for _, _, sent in await wires.published("ledger")]
    assert positions == [str(number) for number in range(1, 1_202)]


async def test_the_relay_reads_the_log_when_it_has_numbered_events_and_when_it_begins_to_lead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledger = Ledger()
    reads: list[int] = []
    read_log = ledger.store.read_log

    async def noted(after: int, *rest: int) -> list[StoredEvent]:
        reads.append(after)
        return await read_log(after, *rest)

    monkeypatch.setattr(ledger.store, "read_log", noted)
    await ledger.store.commit(money("a", 1, 1))
    await ledger.store.number_log()  # as somebody who died before he published
    relay = Relay(ledger.store, InMemoryBus(InMemoryNetwork()), "ledger")
    for _ in range(3):
        await relay.turn()
    assert reads == [0]
    await ledger.store.commit(money("a", 2, 1))
    for _ in range(3):
        await relay.turn()
    assert reads == [0, 1]
    assert ledger.database.schema("ledger").published == 2


async def test_a_relay_goes_on_where_the_one_before_it_stopped() -> None:
    """What NATS drops as a duplicate it remembers for two minutes only."""
    ledger, network = Ledger(), InMemoryNetwork()
    for version in range(1, 4):
        await ledger.store.commit(money("a", version, 1))
        relay = Relay(ledger.store, InMemoryBus(network), "ledger")
        await relay.turn()
        await relay.leadership.give_back()
    assert [event.position for event in network.events["ledger"]] == [1, 2, 3]


async def test_what_is_large_in_an_event_is_published_by_reference(wires: Wires) -> None:
    """Over NATS' limit nothing was ever published again: the relay tried the event for ever."""
    ledger = Ledger()
    owner, cents = "A" * (9 << 20), [1e308] * 28_000
    payload = json.dumps({"owner": owner, "cents": cents, "currency": "EUR"})
    large = replace(opened("a", 1), payload_json=payload)
    await ledger.store.commit(Commit([large, money("a", 2, 5).events[0]]))
    async with turning(Relay(ledger.store, await wires.process(), "ledger").turn):
        await wait_for("all published", lambda: ledger.database.schema("ledger").published == 2)
    first, second = await wires.published("ledger")
    assert first[1] == {
        "owner": {
            "$ref": {
                "log": "ledger.event_log",
                "position": 1,
                "field": "owner",
                "bytes": len(owner) + 2,
            }
        },
        "cents": cents,
        "currency": "EUR",
    }
    assert (first[2]["heeler-by-reference"], first[2]["heeler-position"]) == ("owner", "1")
    assert (second[1], "heeler-by-reference" in second[2]) == (
        {"cents": 5, "currency": "EUR"},
        False,
    )


async def test_a_consumer_is_told_the_whole_of_what_was_published_by_reference(
    wires: Wires,
) -> None:
    ledger = Ledger()
    followers: list[Follower] = []

    async def follow(bus: object) -> None:
        followers.append(Follower(ledger.database, bus))
        await followers[0].consumer.start()

    bus = await wires.process(follow)
    [follower] = followers
    relay = Relay(ledger.store, bus, "ledger")
    note = "x" * (9 << 20)
    payload = f'{{"cents":5,"currency":"EUR","note":"{note}"}}'
    async with turning(relay.turn, follower.consumer.turn):
        await ledger.store.commit(Commit([deposited("a", 1, payload, 3)]))
        await ledger.store.commit(money("a", 2, 6))
        await wait_for("all told", lambda: len(follower.told) == 2)
    assert follower.told == [(5, "a"), (6, "a")]


class RefusingBus(InMemoryBus):
    """Cannot take the events of one aggregate, whatever else comes with them."""

    def __init__(self, network: InMemoryNetwork) -> None:
        super().__init__(network)
        self.refused = 0

    async def publish_events(self, service: str, events: list[StoredEvent]) -> None:
        if any(event.aggregate_id == "b" for event in events):
            self.refused += 1
            raise ValueError("the bus cannot take this")
        await super().publish_events(service, events)


async def test_an_event_that_the_bus_cannot_take_is_left_out_and_the_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ledger = Ledger()
    bus = RefusingBus(InMemoryNetwork())
    relay = Relay(ledger.store, bus, "ledger")
    before = left_out()
    async with turning(relay.turn):
        await ledger.store.commit(Commit([opened("a", 1), opened("b", 1), opened("c", 1)]))
        await ledger.store.commit(Commit([opened("a", 2)]))
        relay.notification.notify()
        await wait_for("all seen", lambda: ledger.database.schema("ledger").published == 4)
    found = [(event.aggregate_id, event.version) for event in bus.network.events["ledger"]]
    assert found == [("a", 1), ("c", 1), ("a", 2)]
    assert left_out() == before + 1
    [logged] = [record for record in caplog.records if record.levelname == "ERROR"]
    assert "event 2 of ledger (account.opened b) cannot be published" in logged.getMessage()
    assert bus.refused == 2, "with the others, and then by itself"


def left_out() -> float:
    counted = REGISTRY.get_sample_value(
        "heeler_relay_events_left_out_total", {"event": "ledger.account.opened"}
    )
    return counted or 0.0


async def test_an_event_that_nats_refuses_for_good_is_left_out_and_the_others_go_on(
    nats_server: NatsServer, ledger_has_streams: None
) -> None:
    ledger = Ledger()
    unspeakable = replace(opened("b", 1), about="no subject has a space")
    await ledger.store.commit(Commit([opened("a", 1), unspeakable, opened("c", 1)]))
    async with nats_wires(nats_server.url) as wires:
        async with turning(Relay(ledger.store, await wires.process(), "ledger").turn):
            await wait_for("all seen", lambda: ledger.database.schema("ledger").published == 3)
        assert [sent["heeler-position"] for _, _, sent in await wires.published("ledger")] == [
            "1",
            "3",
        ]


class CountingBus(InMemoryBus):
    """Counts what is published through it."""

    published = 0

    async def publish_events(self, service: str, events: list[StoredEvent]) -> None:
        self.published += len(events)
        await super().publish_events(service, events)


async def test_of_two_relays_one_publishes_and_the_other_takes_over() -> None:
    now = 0.0
    database = InMemoryDatabase(lambda: now)
    buses = [CountingBus(network := InMemoryNetwork()), CountingBus(network)]
    stores = [InMemoryEventStore(database, "ledger", f"process-{number}") for number in range(2)]
    pairs = zip(stores, buses, strict=True)
    first, second = (Relay(store, bus, "ledger") for store, bus in pairs)
    async with turning(second.turn):
        async with turning(first.turn):
            await wait_for("a leader", lambda: first.leadership.epoch or second.leadership.epoch)
            for version in range(1, 21):
                await stores[0].commit(Commit([opened("a", version)]))
            await wait_for("published", lambda: database.schema("ledger").published == 20)
            assert sorted(bus.published for bus in buses) == [0, 20]
            assert [first.leadership.epoch, second.leadership.epoch].count(None) == 1
        await first.leadership.give_back()
        now += LEASE_SECONDS + 1
        for version in range(21, 26):
            await stores[0].commit(Commit([opened("a", version)]))
        await wait_for("published", lambda: database.schema("ledger").published == 25)
    assert [event.version for event in network.events["ledger"]] == list(range(1, 26))


# The consumer


async def test_an_event_rings_who_hears_its_topic(wires: Wires) -> None:
    rung: list[str] = []
    hearer = await wires.process(
        lambda bus: bus.hear_events("ledger", "money.deposited", lambda: rung.append("money")),
        lambda bus: bus.hear_events("ledger", "account.closed", lambda: rung.append("closed")),
    )
    ledger = Ledger()
    await wires.process(ledger.serve)
    await ledger.store.commit(money("a", 1, 5))
    async with turning(Relay(ledger.store, hearer, "ledger").turn):
        await wait_for("the notification", lambda: rung)
    assert rung == ["money"]


async def test_a_consumer_is_told_of_every_event_in_order(wires: Wires) -> None:
    ledger = Ledger()
    followers: list[Follower] = []

    async def follow(bus: object) -> None:
        followers.append(Follower(ledger.database, bus))
        await followers[0].consumer.start()

    bus = await wires.process(follow)
    [follower] = followers
    relay = Relay(ledger.store, bus, "ledger")
    async with turning(relay.turn, follower.consumer.turn):
        for number in range(1, 101):
            await ledger.store.commit(money("a", number, number))
            await ledger.store.commit(Commit([opened("b", number)]))
        await wait_for("all told", lambda: len(follower.told) >= 100)
    assert follower.told == [(number, "a") for number in range(1, 101)]
    assert await follower.store.position("ledger") >= 199


class UnreliableBus(InMemoryBus):
    """Rings never, twice, or now and then."""

    def __init__(self, how: str) -> None:
        super().__init__(InMemoryNetwork())
        self.how = how
        self.rings = 0

    async def hear_events(self, service: str, topic: str, notify: Notify) -> None:
        def distorted() -> None:
            self.rings += 1
            times = {"never": 0, "twice": 2, "sometimes": self.rings % 3 == 0}[self.how]
            for _ in range(times):
                notify()

        await super().hear_events(service, topic, distorted)


@pytest.mark.parametrize("how", ["never", "twice", "sometimes"])
async def test_what_the_bus_loses_or_doubles_a_consumer_is_told_once(how: str) -> None:
    ledger = Ledger()
    bus = UnreliableBus(how)
    follower = Follower(ledger.database, bus)
    await follower.consumer.start()
    async with turning(Relay(ledger.store, bus, "ledger").turn, follower.consumer.turn):
        for number in range(1, 41):
            await ledger.store.commit(money("a", number, number))
            await asyncio.sleep(0)
        await wait_for("all told", lambda: len(follower.told) >= 40)
    assert follower.told == [(number, "a") for number in range(1, 41)]


async def test_a_new_consumer_is_told_what_happened_before_it(wires: Wires) -> None:
    """The stream may hold nothing of it any more; and who restarts goes on where it stood."""
    ledger = Ledger()
    for number in range(1, 31):
        await ledger.store.commit(money("a", number, number))
    bus = await wires.process()
    relay = Relay(ledger.store, bus, "ledger")
    async with turning(relay.turn):
        await wait_for("published", lambda: ledger.database.schema("ledger").published == 30)
        first = Follower(ledger.database, bus, "first")
        async with turning(first.consumer.turn):
            await wait_for("all told", lambda: len(first.told) == 30)
            await wait_for("moved", lambda: positions(ledger) == {"ledger": 30})
        await first.consumer.leadership.give_back()
        await ledger.store.commit(money("a", 31, 31))
        second = Follower(ledger.database, bus, "second")
        async with turning(second.consumer.turn):
            await wait_for("the rest told", lambda: second.told)
    assert first.told == [(number, "a") for number in range(1, 31)]
    assert second.told == [(31, "a")]


async def test_an_event_whose_reaction_failed_is_reacted_to_again() -> None:
    ledger = Ledger(database=InMemoryDatabase(lambda: seconds[0]))
    seconds = [0.0]
    follower = Follower(ledger.database, InMemoryBus(InMemoryNetwork()))
    for number in range(1, 6):
        await ledger.store.commit(money("a", number, number))
    await ledger.store.number_log()
    react = follower.consumer.reactions["money.deposited"]
    failures = [RuntimeError("a bug")]

    async def failing_once(event: Event, cause: Context) -> None:
        if event.originator_version == 3 and failures:
            raise failures.pop()
        await react(event, cause)

    follower.consumer.reactions["money.deposited"] = failing_once
    await follower.consumer.turn()
    assert positions(ledger) == {"ledger": 2}
    await follower.consumer.turn()
    assert [cents for cents, _ in follower.told] == [1, 2]
    seconds[0] += 1
    await follower.consumer.turn()
    assert [cents for cents, _ in follower.told] == [1, 2, 3, 4, 5]
    assert positions(ledger) == {"ledger": 5}


async def test_a_reaction_is_in_the_name_of_whoever_caused_the_event() -> None:
    ledger = Ledger()
    work = ledger.repository.work(context("m1"))
    await deposit(Deposit(account_id="a", cents=5), work)
    await work.commit()
    await ledger.store.number_log()
    follower = Follower(ledger.database, InMemoryBus(InMemoryNetwork()))
    await follower.consumer.turn()
    assert follower.told == [(5, "a")]
    [cause] = follower.contexts
    assert (cause.message_id, cause.org, cause.actor) == ("a.2", "org-1", "user-1")
    assert cause.correlation_id == "for-m1"


async def test_a_consumer_that_was_overtaken_stops(wires: Wires) -> None:
    ledger = Ledger()
    bus = await wires.process()
    await ledger.store.commit(money("a", 1, 1))
    await ledger.store.number_log()
    zombie, heir = (Follower(ledger.database, bus, name) for name in ("zombie", "heir"))
    react = zombie.consumer.reactions["money.deposited"]

    async def frozen(event: Event, cause: Context) -> None:
        await heir.consumer.react_to_page()
        await react(event, cause)

    zombie.consumer.reactions["money.deposited"] = frozen
    await zombie.consumer.turn()
    assert zombie.consumer.leadership.epoch is None
    assert positions(ledger) == {"ledger": 1}


class LateStore(InMemoryEventStore):
    """A store whose first commit counts as lost, and happens when the next one comes."""

    lost: Commit | None = None
    begun = False

    async def commit(self, commit: Commit) -> int | None:
        if not self.begun:
            self.begun, self.lost = True, commit
            raise StoreUnavailable("the outcome is not known")
        if self.lost is not None:
            late, self.lost = self.lost, None
            await super().commit(late)
        return await super().commit(commit)


async def test_a_consumer_whose_move_happened_late_goes_on() -> None:
    """Seed 356 of the simulator: it forgot its lease and renewed it for ever, so nobody ever
    followed that log again."""
    ledger = Ledger()
    follower = Follower(ledger.database, InMemoryBus(InMemoryNetwork()))
    follower.consumer.store = follower.consumer.leadership.store = store = LateStore(
        ledger.database, "follower", "f"
    )
    await ledger.store.commit(money("a", 1, 1))
    await ledger.store.number_log()
    with pytest.raises(StoreUnavailable):
        await follower.consumer.turn()
    await follower.consumer.turn()
    assert positions(ledger) == {"ledger": 1}
    assert await store.renew_leases() == set()
    await ledger.store.commit(money("a", 2, 2))
    await ledger.store.number_log()
    await follower.consumer.turn()
    assert positions(ledger) == {"ledger": 2}
