"""NATS dies, and loses everything it stored: nothing of ours is lost."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator
from itertools import count

import pytest

from libs.bus import event_consumer as consumers
from libs.bus import jetstream_declarations
from libs.bus import relay as relays
from libs.bus.background_loops import forever
from libs.bus.clock_and_ids import SystemClock
from libs.bus.nats_bus import NatsBus
from libs.bus.ports import Bus, BusUnavailable
from libs.bus.relay import Relay
from libs.contracts.bus_messages import Accepted
from libs.contracts.service_registry import events_stream
from libs.contracts.stream_definitions import COMMANDS_STREAM, TOKENS_STREAM
from tests.chosen import new_nats
from tests.contract.ledger import Deposit, context
from tests.contract.ledger_follower import Follower
from tests.contract.wires import Ledger, NatsWires, nats_wires
from tests.servers import NatsServer
from tests.waiting import in_time, wait_for

BACK_SECONDS_MAX = 10.0
ANSWER_SECONDS_MAX = 10.0
CLIENTS = 16


@pytest.fixture
def own_nats() -> Iterator[NatsServer]:
    server = new_nats().start()
    yield server
    server.close()


class Clients:
    """Clients that deposit one after the other until they are told to stop."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.answered = 0
        self.stopping = False

    async def run(self) -> None:
        await asyncio.gather(*(self.deposit_again_and_again(f"c{n}") for n in range(CLIENTS)))

    async def deposit_again_and_again(self, account: str) -> None:
        for number in count(1):
            if self.stopping:
                return
            command = Deposit(account_id=account, cents=number)
            reply = await self.bus.request(command, context(f"{account}.{number}"), seconds_max=60)
            assert isinstance(reply, Accepted), reply
            assert reply.result == {"cents": number * (number + 1) // 2}
            self.answered += 1


@pytest.mark.parametrize("wipe", [True, False], ids=["wiped", "kept"])
async def test_a_nats_that_dies_and_forgets_costs_a_moment(
    own_nats: NatsServer,
    ledger_has_streams: None,
    monkeypatch: pytest.MonkeyPatch,
    wipe: bool,
) -> None:
    monkeypatch.setattr(consumers, "POLL_SECONDS", 0.5)
    monkeypatch.setattr(relays, "POLL_SECONDS", 0.1)
    ledger = Ledger()
    followers: list[Follower] = []

    async def follow(bus: Bus) -> None:
        followers.append(Follower(ledger.database, bus))
        await followers[0].consumer.start()

    async with nats_wires(own_nats.url) as wires:
        servant = await wires.process(ledger.serve, follow)
        relay = Relay(ledger.store, servant, "ledger")
        [follower] = followers
        loops = [
            asyncio.create_task(forever(turn.__qualname__, turn, SystemClock()))
            for turn in (relay.turn, follower.consumer.turn)
        ]
        clients = Clients(await wires.process())
        running = asyncio.create_task(clients.run())
        try:
            await wait_for("some answers", lambda: clients.answered > 200)
            await wait_for("some events", lambda: len(follower.told) > 200)
            own_nats.kill9()
            if wipe:
                own_nats.wipe_store()
            with pytest.raises(BusUnavailable):
                await servant.publish_events("ledger", await ledger.store.read_log(0, 1))
            await asyncio.to_thread(own_nats.start)
            await all_is_well_again(wires, ledger, clients, follower)
            clients.stopping = True
            await running
            schema = ledger.database.schema("ledger")
            await wait_for("published", lambda: schema.published == len(schema.committed))
            await wait_for("told of all", lambda: len(follower.told) >= clients.answered)
        finally:
            for task in (*loops, running):
                task.cancel()
            await asyncio.gather(*loops, running, return_exceptions=True)
    told = [event.payload["cents"] for event in schema.log if event.topic == "money.deposited"]
    assert [cents for cents, _ in follower.told] == told
    assert len(told) == clients.answered


async def all_is_well_again(
    wires: NatsWires, ledger: Ledger, clients: Clients, follower: Follower
) -> None:
    """Everything goes on within the time that is allowed after NATS is back."""
    back = time.monotonic()
    answered, told = clients.answered, len(follower.told)

    def left() -> float:
        return back + BACK_SECONDS_MAX - time.monotonic()

    await wait_for("answers", lambda: clients.answered > answered + 5 * CLIENTS, left())
    await wait_for("events", lambda: len(follower.told) > told + 5 * CLIENTS, left())
    jetstream = wires.observer.jetstream()
    consumer = await jetstream.consumer_info("COMMANDS", "ledger")
    assert consumer.config.deliver_group == "ledger"
    stream = await jetstream.stream_info(events_stream("ledger"))
    assert stream.config.subjects == ["ledger.event.>"]

    async def published() -> bool:
        return (await jetstream.stream_info(events_stream("ledger"))).state.messages > 0

    await wait_for("events in the stream", published, left())


async def test_a_client_that_has_stopped_trying_to_reconnect_is_made_to_go_on(
    own_nats: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nats_wires(own_nats.url) as wires:
        bus = await wires.process()
        assert isinstance(bus, NatsBus)
        broken = [True]
        real = bus.client._process_connect_init

        async def breaks_once() -> None:
            if broken:
                broken.clear()
                raise RuntimeError("unable to perform operation on <TCPTransport closed=True>")
            await real()

        monkeypatch.setattr(bus.client, "_process_connect_init", breaks_once)
        own_nats.kill9()
        await wait_for("it is noticed", lambda: not bus.connected)
        own_nats.start()
        await wait_for("it is connected again", lambda: bus.connected, BACK_SECONDS_MAX)
        assert not broken


async def test_a_stream_that_somebody_deletes_is_made_again(
    own_nats: NatsServer, ledger_has_streams: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jetstream_declarations, "DECLARE_EVERY_SECONDS", 0.1)
    ledger = Ledger()
    async with nats_wires(own_nats.url) as wires:
        await wires.process(ledger.serve)
        jetstream = wires.observer.jetstream()
        gone = [COMMANDS_STREAM, TOKENS_STREAM, events_stream("ledger")]

        async def present() -> bool:
            streams = {stream.config.name for stream in await jetstream.streams_info()}
            return {*gone} <= streams

        for stream in gone:
            await jetstream.delete_stream(stream)
            await wait_for(f"{stream} is there again", present)

        async def consumed() -> bool:
            consumers = await jetstream.consumers_info(COMMANDS_STREAM)
            return "ledger" in {consumer.name for consumer in consumers}

        await wait_for("its consumer is there again", consumed)
        await jetstream.delete_consumer(COMMANDS_STREAM, "ledger")
        await wait_for("the consumer is made again", consumed)


async def test_a_client_that_is_closed_for_good_ends_the_process(
    own_nats: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    signals: list[int] = []
    monkeypatch.setattr(signal, "raise_signal", signals.append)
    async with nats_wires(own_nats.url) as wires:
        bus = await wires.process()
        assert isinstance(bus, NatsBus)
        await bus.client._process_err("'Authorization Violation'")
        await wait_for("it gives up", lambda: bool(signals), BACK_SECONDS_MAX)
    assert set(signals) == {signal.SIGTERM}


async def test_a_process_that_looked_after_a_frozen_nats_is_not_deaf_afterwards(
    own_nats: NatsServer, ledger_has_streams: None
) -> None:
    async with nats_wires(own_nats.url) as wires:
        await wires.process(Ledger().serve)
        client = await wires.process()
        assert isinstance(client, NatsBus)
        assert await client.answers(ANSWER_SECONDS_MAX)
        with own_nats.frozen():
            assert not await client.answers(0.3)
        assert await client.answers(ANSWER_SECONDS_MAX)
        # That came after the late answers to everything above.
        command = Deposit(account_id="a", cents=1)
        reply = await client.request(command, context("m"), seconds_max=ANSWER_SECONDS_MAX)
        assert isinstance(reply, Accepted)


async def test_a_bus_without_nats_does_not_answer(own_nats: NatsServer) -> None:
    async with nats_wires(own_nats.url) as wires:
        client = await wires.process()
        assert isinstance(client, NatsBus)
        own_nats.kill9()
        assert not await client.answers(0.3)
        own_nats.start()


async def test_a_request_without_nats_is_unavailable_in_time(
    own_nats: NatsServer, ledger_has_streams: None
) -> None:
    async with nats_wires(own_nats.url) as wires:
        client = await wires.process()
        own_nats.kill9()

        async def refused() -> float:
            began = time.monotonic()
            with pytest.raises(BusUnavailable):
                await client.request(Deposit(account_id="a", cents=1), context("m"), seconds_max=1)
            return time.monotonic() - began

        await in_time("a request without NATS", refused, 2.0)
        await client.publish_delta("ledger.delta.run.progress.org-1.a", b"lost")
        own_nats.start()


async def test_a_bus_stops_while_nats_is_away(
    own_nats: NatsServer, ledger_has_streams: None
) -> None:
    async with nats_wires(own_nats.url) as wires:
        servant = await wires.process(Ledger().serve)
        own_nats.kill9()
        await wait_for("noticed", lambda: not servant.connected)
        wires.buses.remove(servant)
        async with asyncio.timeout(5):
            await servant.stop()
        own_nats.start()
