"""The in-memory bus: the same contract, for tests and for the simulator."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from libs.bus.message_telemetry import below, sending
from libs.bus.ports import (
    REQUEST_SECONDS_MAX,
    Answer,
    BusUnavailable,
    Deliver,
    IncomingCommand,
    Notify,
    outgoing,
    too_large,
)
from libs.bus.process_router import ProcessRouter, RoutedSubscription, Servant
from libs.contracts.bus_messages import REPLY, Accepted, Command, Context, Rejected
from libs.contracts.stream_definitions import MESSAGE_BYTES_MAX
from libs.eventstore.ports import StoredEvent

ATTEMPT_PAUSE_SECONDS = 0.05


@dataclass(slots=True)
class InMemoryNetwork(ProcessRouter):
    """The parts that several processes share."""

    listeners: dict[str, list[Notify]] = field(default_factory=lambda: defaultdict(list))
    tokens: dict[str, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    events: dict[str, list[StoredEvent]] = field(default_factory=lambda: defaultdict(list))


class InMemoryBus:
    """Keeps the contract of `ports.Bus`; messages travel as JSON, as they do for real."""

    def __init__(self, network: InMemoryNetwork) -> None:
        self.network = network
        self.served: list[tuple[str, Servant]] = []
        self.in_flight: set[asyncio.Task[Any]] = set()
        self.connected, self.reconnects = True, 0

    async def request(
        self, command: Command, context: Context, *, seconds_max: float = REQUEST_SECONDS_MAX
    ) -> Accepted | Rejected:
        """Send a command until it is answered."""
        with sending(command, context) as span:
            outgoing_command = outgoing(command, below(span, context))
            return await self.resend(outgoing_command, seconds_max=seconds_max)

    async def resend(
        self, incoming: IncomingCommand, *, seconds_max: float = REQUEST_SECONDS_MAX
    ) -> Accepted | Rejected:
        """Send a command that arrived before."""
        refused = too_large(incoming, MESSAGE_BYTES_MAX)
        if refused:
            return refused
        service = incoming.name.partition(".")[0]
        sent_at = datetime.now(UTC).isoformat()
        incoming = replace(incoming, context=replace(incoming.context, sent_at=sent_at))
        until = time.monotonic() + seconds_max
        try:
            async with asyncio.timeout(seconds_max):
                while True:
                    left = until - time.monotonic()
                    last = left <= 2 * ATTEMPT_PAUSE_SECONDS
                    delivery = replace(incoming, seconds_left=left, last_delivery=last)
                    reply = await self.attempt(service, delivery)
                    if reply is not None:
                        return reply
                    await asyncio.sleep(ATTEMPT_PAUSE_SECONDS)
                    incoming = replace(incoming, again=True)
        except TimeoutError as late:
            raise BusUnavailable(f"{incoming.name}: no answer") from late

    async def attempt(self, service: str, incoming: IncomingCommand) -> Accepted | Rejected | None:
        """Deliver a command once; None if nobody serves or the handler failed. A handler goes on
        when the requester stops waiting."""
        servant = self.network.servant(service)
        if servant is None:
            return None
        begun = servant.begin(
            incoming, bytes_max=MESSAGE_BYTES_MAX, pause_seconds=ATTEMPT_PAUSE_SECONDS
        )
        outcome = await asyncio.shield(begun)
        return REPLY.validate_json(outcome) if isinstance(outcome, bytes) else None

    async def serve(self, service: str, answer: Answer) -> None:
        """Answer the commands of a service."""
        servant = Servant(answer, self.in_flight)
        self.network.servants[service].append(servant)
        self.served.append((service, servant))

    async def stop_serving(self) -> None:
        """Take no more commands, and return when those that were taken are answered."""
        for service, servant in self.served:
            self.network.servants[service].remove(servant)
        self.served = []
        if self.in_flight:
            await asyncio.wait(self.in_flight)

    async def publish_events(self, service: str, events: list[StoredEvent]) -> None:
        """Deliver these events to their subscribers, in order."""
        self.network.events[service] += events
        for event in events:
            for notify in self.network.listeners[f"{service}.{event.topic}"]:
                notify()

    async def forget_events(self, service: str) -> None:
        """Forget the events of a service that were published."""
        self.network.events[service].clear()

    async def hear_events(self, service: str, topic: str, notify: Notify) -> None:
        """Call `notify` when an event of this topic is published."""
        self.network.listeners[f"{service}.{topic}"].append(notify)

    async def publish_delta(
        self, subject: str, payload: bytes, *, replaces_kept: bool = False
    ) -> None:
        """Deliver a delta to those who subscribe now."""
        if replaces_kept:
            self.network.tokens.pop(subject, None)
        elif subject.split(".")[3] == "token":
            self.network.tokens[subject].append(payload)
        self.network.deliver(subject, payload)

    async def kept_deltas(self, subject: str) -> list[bytes]:
        """The tokens of a subject."""
        return list(self.network.tokens.get(subject, []))

    async def kept_subjects(self, pattern: str) -> list[str]:
        """The subjects that have tokens."""
        return [subject for subject in self.network.tokens if matches(subject, pattern)]

    async def subscribe_deltas(self, subject: str, deliver: Deliver) -> RoutedSubscription:
        """Hear the deltas of a subject from now on."""
        return self.network.subscribe(subject, deliver)


def matches(subject: str, pattern: str) -> bool:
    """Whether a subject fits a pattern, in which `*` stands for any token."""
    tokens, wanted = subject.split("."), pattern.split(".")
    return len(tokens) == len(wanted) and all(
        expected in ("*", token) for token, expected in zip(tokens, wanted, strict=True)
    )
