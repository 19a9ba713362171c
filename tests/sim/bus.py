"""The bus as one simulated process sees it, and the broker behind it.

The broker keeps commands until they are acknowledged, gives each to one of those who serve, again
when no acknowledgement comes in time, and takes a late one. What it stores can be wiped.
"""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count
from typing import Any

from libs.bus.command_attempt import attempt
from libs.bus.in_memory import matches
from libs.bus.nats_command_client import resend_pauses
from libs.bus.nats_command_consumer import REDELIVERY_SECONDS, waited_between
from libs.bus.nats_deltas import KEPT_SECONDS_MAX
from libs.bus.ports import (
    REQUEST_SECONDS_MAX,
    Answer,
    BusUnavailable,
    Deliver,
    IncomingCommand,
    Notify,
    TryAgain,
    is_answer,
    outgoing,
    too_large,
)
from libs.contracts.bus_messages import REPLY, Accepted, Command, Context, Rejected
from libs.contracts.stream_definitions import COMMAND_ACK_WAIT_SECONDS, MESSAGE_BYTES_MAX
from libs.eventstore.ports import StoredEvent
from tests.sim.loop import Lane
from tests.sim.network import BUS, Network, at
from tests.unit.given import NOW

PUBLISH_SECONDS_MAX = 2.0
DECLARED_AGAIN_SECONDS_MAX = 5.0
DRAIN_SECONDS_MAX = 8.0
LOOKED_AGAIN_SECONDS = 1.0


@dataclass(slots=True)
class Stored:
    """A command that nobody has acknowledged yet."""

    number: int
    incoming: IncomingCommand
    tell: Callable[[str], None]
    request: object
    deliveries: int = 0


@dataclass(slots=True)
class Servant:
    """A process that serves, as the broker knows it."""

    name: str
    lane: Lane | None
    take: Callable[[Stored, int], None]


@dataclass(slots=True)
class Broker:
    """What several processes share."""

    network: Network
    numbers: Any = field(default_factory=lambda: count(1))
    commands: dict[str, dict[int, Stored]] = field(default_factory=lambda: defaultdict(dict))
    servants: dict[str, list[Servant]] = field(default_factory=lambda: defaultdict(list))
    listeners: dict[str, list[tuple[str, Lane | None, Notify]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    deltas: dict[str, list[tuple[str, Lane | None, Deliver]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    tokens: dict[str, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    events: dict[str, dict[str, StoredEvent]] = field(default_factory=lambda: defaultdict(dict))
    taken: dict[str, list[StoredEvent]] = field(default_factory=lambda: defaultdict(list))

    # Commands

    def store(
        self,
        service: str,
        incoming: IncomingCommand,
        tell: Callable[[str], None],
        request: object,
    ) -> None:
        """A command arrived; it is forgotten when nobody can be waiting for it any more."""
        stored = Stored(next(self.numbers), incoming, tell, request)
        self.commands[service][stored.number] = stored
        at(math.ceil(incoming.seconds_left) + 1, None, self.acknowledge, service, stored)
        self.hand_out(service, stored)

    def hand_out(self, service: str, stored: Stored) -> None:
        """Give a command to somebody, and look after it until it is acknowledged."""
        if stored.number not in self.commands[service]:
            return
        servants = self.servants[service]
        if self.network.down[BUS] or not servants:
            at(LOOKED_AGAIN_SECONDS, None, self.ask_again, service, stored, stored.deliveries)
            return
        servant = self.network.random.choice(servants)
        stored.deliveries += 1
        self.network.deliver(
            BUS, servant.name, servant.lane, servant.take, stored, stored.deliveries
        )
        at(COMMAND_ACK_WAIT_SECONDS, None, self.ask_again, service, stored, stored.deliveries)

    def ask_again(self, service: str, stored: Stored, deliveries: int) -> None:
        """No acknowledgement came in time."""
        if stored.deliveries == deliveries:
            self.hand_out(service, stored)

    def serve(self, service: str, servant: Servant) -> None:
        """Somebody serves."""
        self.servants[service].append(servant)

    def acknowledge(self, service: str, stored: Stored) -> None:
        """A command is done with, however late that comes."""
        self.commands[service].pop(stored.number, None)

    def refuse(self, service: str, stored: Stored, seconds: float) -> None:
        """A command is to be delivered again, later."""
        at(seconds, None, self.ask_again, service, stored, stored.deliveries)

    # Events

    def publish(self, service: str, events: list[StoredEvent]) -> None:
        """Events arrived; one that is known already is dropped."""
        for event in events:
            identity = f"{event.aggregate_id}.{event.version}"
            self.taken[service].append(event)
            if self.events[service].setdefault(identity, event) is not event:
                continue
            for name, lane, notify in self.listeners[f"{service}.{event.topic}"]:
                self.network.deliver(BUS, name, lane, notify)

    # Processes and disasters

    def forget(self, lane: Lane) -> None:
        """A process is gone, and its connection with it."""
        for servants in self.servants.values():
            servants[:] = [servant for servant in servants if servant.lane is not lane]
        for known in (*self.listeners.values(), *self.deltas.values()):
            known[:] = [entry for entry in known if entry[1] is not lane]

    def wipe(self) -> None:
        """The store of the broker is gone; those who serve declare their consumers anew."""
        self.commands.clear()
        self.tokens.clear()
        self.events.clear()
        for service, servants in list(self.servants.items()):
            for servant in servants:
                seconds = self.network.random.random() * DECLARED_AGAIN_SECONDS_MAX
                at(seconds, None, self.declare, service, servant)
            servants.clear()

    def declare(self, service: str, servant: Servant) -> None:
        """A consumer is back, unless its process died meanwhile."""
        if servant.lane is None or servant.lane.alive:
            self.serve(service, servant)


class SimBus:
    """Keeps the contract of `ports.Bus`, as `NatsBus` does."""

    def __init__(self, broker: Broker, name: str, lane: Lane | None) -> None:
        self.broker = broker
        self.network = broker.network
        self.name = name
        self.lane = lane
        self.in_flight: set[asyncio.Task[None]] = set()
        self.handled: set[object] = set()
        self.serving: list[tuple[str, Servant]] = []
        self.connected, self.reconnects = True, 0  # what is lost is lost unnoticed

    def send(self, callback: Callable[..., object], *args: Any) -> None:
        """Something leaves for the broker; some of it twice."""
        twice = self.network.chance(self.network.weather.duplicates, "duplicate")
        for _ in range(1 + twice):
            self.leave(callback, *args)

    def leave(self, callback: Callable[..., object], *args: Any) -> bool:
        """Something leaves for the broker, unless this process is dead."""
        if self.lane is not None and not self.lane.alive:
            return False
        return self.network.deliver(self.name, BUS, None, callback, *args)

    # Commands

    async def request(
        self, command: Command, context: Context, *, seconds_max: float = REQUEST_SECONDS_MAX
    ) -> Accepted | Rejected:
        return await self.resend(outgoing(command, context), seconds_max=seconds_max)

    async def resend(
        self, incoming: IncomingCommand, *, seconds_max: float = REQUEST_SECONDS_MAX
    ) -> Accepted | Rejected:
        refused = too_large(incoming, MESSAGE_BYTES_MAX)
        if refused:
            return refused
        service = incoming.name.partition(".")[0]
        sent_at = (NOW + timedelta(seconds=asyncio.get_running_loop().time())).isoformat()
        incoming = replace(incoming, context=replace(incoming.context, sent_at=sent_at))
        reply: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        until = asyncio.get_running_loop().time() + seconds_max

        request = object()

        def hear(told: str) -> None:
            if not reply.done():
                reply.set_result(told)

        def tell(told: str) -> None:
            self.network.deliver(BUS, self.name, self.lane, hear, told)

        try:
            async with asyncio.timeout(seconds_max):
                for pause in resend_pauses():
                    left = max(until - asyncio.get_running_loop().time(), 0.0)
                    incoming = replace(incoming, seconds_left=left)
                    self.send(self.broker.store, service, incoming, tell, request)
                    await asyncio.wait([reply], timeout=pause)
                    if reply.done():
                        answer = REPLY.validate_json(reply.result())
                        if is_answer(answer, sent_again=incoming.again):
                            return answer
                        reply = asyncio.get_running_loop().create_future()
                        await asyncio.sleep(pause)
                    incoming = replace(incoming, again=True)
        except TimeoutError as late:
            raise BusUnavailable(f"{incoming.name}: no answer") from late
        raise AssertionError("resending never ends")

    async def serve(self, service: str, answer: Answer) -> None:
        def take(stored: Stored, delivery: int) -> None:
            if stored.request in self.handled:
                if delivery == 1:
                    self.send(self.broker.acknowledge, service, stored)
                return
            self.handled.add(stored.request)
            work = self.answer_one(service, stored, delivery, answer)
            task = asyncio.get_running_loop().create_task(work)
            self.in_flight.add(task)
            task.add_done_callback(self.in_flight.discard)
            task.add_done_callback(lambda _: self.handled.discard(stored.request))

        servant = Servant(self.name, self.lane, take)
        self.serving.append((service, servant))
        self.broker.serve(service, servant)

    async def answer_one(self, service: str, stored: Stored, delivery: int, answer: Answer) -> None:
        """Answer and acknowledge one command, or ask for it again later."""
        pause = REDELIVERY_SECONDS[min(delivery, len(REDELIVERY_SECONDS)) - 1]
        left = stored.incoming.seconds_left - waited_between(delivery)
        incoming = replace(
            stored.incoming,
            again=stored.incoming.again or delivery > 1,
            seconds_left=left,
            last_delivery=left <= pause,
        )
        outcome = await attempt(answer, incoming, bytes_max=MESSAGE_BYTES_MAX, pause_seconds=pause)
        if isinstance(outcome, TryAgain):
            self.send(self.broker.refuse, service, stored, outcome.seconds)
            return
        if isinstance(outcome, bytes):
            self.send(stored.tell, outcome.decode())
        self.send(self.broker.acknowledge, service, stored)

    async def stop_serving(self) -> None:
        for service, servant in self.serving:
            if servant in self.broker.servants[service]:
                self.broker.servants[service].remove(servant)
        self.serving = []
        if self.in_flight:
            await asyncio.wait(self.in_flight, timeout=DRAIN_SECONDS_MAX)

    # Events

    async def publish_events(self, service: str, events: list[StoredEvent]) -> None:
        taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def hear() -> None:
            if not taken.done():
                taken.set_result(None)

        def arrive() -> None:
            self.broker.publish(service, events)
            self.network.deliver(BUS, self.name, self.lane, hear)

        if not self.leave(arrive):
            begun = events[: self.network.random.randrange(len(events))]
            self.leave(self.broker.publish, service, begun)
        await asyncio.wait([taken], timeout=PUBLISH_SECONDS_MAX)
        if not taken.done():
            raise BusUnavailable(f"events of {service} were not taken")

    async def forget_events(self, service: str) -> None:
        """Nobody reads the stream of events here."""

    async def hear_events(self, service: str, topic: str, notify: Notify) -> None:
        self.broker.listeners[f"{service}.{topic}"].append((self.name, self.lane, notify))

    # Deltas

    async def publish_delta(
        self, subject: str, payload: bytes, *, replaces_kept: bool = False
    ) -> None:
        def arrive() -> None:
            if replaces_kept:
                self.broker.tokens.pop(subject, None)
            elif subject.split(".")[3] == "token":
                self.broker.tokens[subject].append(payload)
            for pattern, listening in self.broker.deltas.items():
                if matches(subject, pattern):
                    for name, lane, deliver in listening:
                        self.network.deliver(BUS, name, lane, deliver, subject, payload)

        self.leave(arrive)

    async def kept_deltas(self, subject: str) -> list[bytes]:
        return await self.kept(lambda: list(self.broker.tokens.get(subject, [])))

    async def kept_subjects(self, pattern: str) -> list[str]:
        return await self.kept(
            lambda: [subject for subject in self.broker.tokens if matches(subject, pattern)]
        )

    async def kept[T](self, look: Callable[[], list[T]]) -> list[T]:
        """What the broker answers, if it does in time."""
        kept: asyncio.Future[list[T]] = asyncio.get_running_loop().create_future()

        def hear(found: list[T]) -> None:
            if not kept.done():
                kept.set_result(found)

        def arrive() -> None:
            self.network.deliver(BUS, self.name, self.lane, hear, look())

        self.leave(arrive)
        await asyncio.wait([kept], timeout=KEPT_SECONDS_MAX)
        return kept.result() if kept.done() else []

    async def subscribe_deltas(self, subject: str, deliver: Deliver) -> Subscribed:
        entry = (self.name, self.lane, deliver)
        self.leave(self.broker.deltas[subject].append, entry)
        return Subscribed(self, subject, entry)


@dataclass(frozen=True, slots=True)
class Subscribed:
    """A subscription that can be ended."""

    bus: SimBus
    subject: str
    entry: tuple[str, Lane | None, Deliver]

    async def end(self) -> None:
        def arrive() -> None:
            listeners = self.bus.broker.deltas[self.subject]
            if self.entry in listeners:
                listeners.remove(self.entry)

        self.bus.leave(arrive)
