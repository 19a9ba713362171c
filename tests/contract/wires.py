"""The worlds that the bus's contract is tested in: memory, simulation, a real NATS, and a process
on a real NATS whose services share it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import count
from random import Random
from typing import Any, Protocol

import nats
from nats.aio.client import Client
from nats.js.errors import NotFoundError

from libs.bus.command_dispatcher import CommandDispatcher, Handler
from libs.bus.in_memory import InMemoryBus, InMemoryNetwork
from libs.bus.large_events import EVENT_BYTES_MAX
from libs.bus.nats_bus import NatsBus
from libs.bus.nats_events import event_message
from libs.bus.ports import Bus
from libs.bus.service_runner import MakeBus
from libs.contracts.bus_messages import Command
from libs.contracts.service_registry import events_stream
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.ports import StoredEvent
from libs.eventstore.unit_of_work import Repository
from tests.contract.ledger import Deposit, deposit, project
from tests.sim.bus import Broker, SimBus
from tests.sim.network import Network

HOLDERS = count(1)
Published = tuple[str, dict[str, Any], Mapping[str, str]]


class Wires(Protocol):
    """One bus that several processes are on."""

    async def process(self, *prepare: Callable[[Bus], Awaitable[None]]) -> Bus:
        """A started bus of one more process; what it serves and hears is prepared before."""
        ...

    async def published(self, service: str) -> list[Published]:
        """What the stream of a service holds: subject, payload, headers."""
        ...


def as_published(service: str, event: StoredEvent) -> Published:
    """An event as NATS would have it."""
    subject, payload, sent = event_message(service, event, EVENT_BYTES_MAX)
    return subject, json.loads(payload), sent


class MemoryWires:
    def __init__(self) -> None:
        self.network = InMemoryNetwork()
        self.buses: list[InMemoryBus] = []

    async def process(self, *prepare: Callable[[Bus], Awaitable[None]]) -> Bus:
        bus = InMemoryBus(self.network)
        for step in prepare:
            await step(bus)
        return bus

    async def published(self, service: str) -> list[Published]:
        return [as_published(service, event) for event in self.network.events[service]]


class SimWires:
    """The bus of the simulator, when nothing goes wrong in it."""

    def __init__(self) -> None:
        self.broker = Broker(Network(Random(1)))

    async def process(self, *prepare: Callable[[Bus], Awaitable[None]]) -> Bus:
        bus = SimBus(self.broker, f"process-{next(HOLDERS)}", None)
        for step in prepare:
            await step(bus)
        return bus

    async def published(self, service: str) -> list[Published]:
        return [as_published(service, event) for event in self.broker.events[service].values()]


class NatsWires:
    def __init__(self, url: str, observer: Client, make_bus: MakeBus = NatsBus) -> None:
        self.url = url
        self.observer = observer
        self.make_bus = make_bus
        self.buses: list[NatsBus] = []

    async def process(self, *prepare: Callable[[Bus], Awaitable[None]]) -> NatsBus:
        bus = self.make_bus(self.url, f"process-{next(HOLDERS)}")
        for step in prepare:
            await step(bus)
        await bus.start()
        self.buses.append(bus)
        return bus

    async def published(self, service: str) -> list[Published]:
        jetstream = self.observer.jetstream()
        stream = events_stream(service)
        state = (await jetstream.stream_info(stream)).state
        found = []
        for sequence in range(max(state.first_seq, 1), state.last_seq + 1):
            message = await jetstream.get_msg(stream, sequence)
            assert message.subject
            assert message.data
            found.append((message.subject, json.loads(message.data), message.headers or {}))
        return found

    async def forget_streams(self) -> None:
        """Begin without what earlier tests left."""
        jetstream = self.observer.jetstream()
        for stream in ("COMMANDS", "TOKENS", events_stream("ledger")):
            with suppress(NotFoundError):
                await jetstream.delete_stream(stream)


@asynccontextmanager
async def nats_wires(url: str, make_bus: MakeBus = NatsBus) -> AsyncIterator[NatsWires]:
    observer = await nats.connect(url, max_reconnect_attempts=-1, reconnect_time_wait=0.1)
    wires = NatsWires(url, observer, make_bus)
    try:
        await wires.forget_streams()
        yield wires
    finally:
        await asyncio.gather(*(bus.stop() for bus in wires.buses))
        await observer.close()


class Ledger:
    """The ledger service on a store in memory, one instance for each of its processes."""

    def __init__(
        self, handler: Handler = deposit, database: InMemoryDatabase | None = None
    ) -> None:
        self.database = database or InMemoryDatabase(time.monotonic)
        self.store = InMemoryEventStore(self.database, "ledger", f"ledger-{next(HOLDERS)}")
        self.repository = Repository(self.store, "ledger", project)
        handlers: dict[type[Command], Handler] = {Deposit: handler}
        self.shell = CommandDispatcher(self.repository, handlers)

    async def serve(self, bus: Bus) -> None:
        await bus.serve("ledger", self.shell.answer)

    async def cents(self, account_id: str) -> list[int]:
        """What was deposited into an account, in order."""
        events = (await self.store.load(account_id)).events
        return [int(str(e.payload["cents"])) for e in events if e.topic == "money.deposited"]
