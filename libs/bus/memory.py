"""The bus's twin in memory: the same contract, for tests and for the simulator."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field

from libs.bus.ports import (
    REQUEST_SECONDS_MAX,
    Answer,
    BusUnavailable,
    Deliver,
    IncomingCommand,
    Ring,
)
from libs.contracts.message import REPLY, Accepted, Command, Context, Rejected
from libs.eventstore.ports import StoredEvent

ATTEMPT_PAUSE_SECONDS = 0.05


@dataclass(slots=True)
class MemoryNetwork:
    """What several processes share."""

    servants: dict[str, list[Answer]] = field(default_factory=lambda: defaultdict(list))
    listeners: dict[str, list[Ring]] = field(default_factory=lambda: defaultdict(list))
    deltas: dict[str, list[Deliver]] = field(default_factory=lambda: defaultdict(list))
    events: dict[str, list[StoredEvent]] = field(default_factory=lambda: defaultdict(list))
    turns: dict[str, int] = field(default_factory=lambda: defaultdict(int))


class MemoryBus:
    """Keeps the contract of `ports.Bus`; messages travel as JSON, as they do for real."""

    def __init__(self, network: MemoryNetwork) -> None:
        self.network = network

    async def request(
        self, command: Command, context: Context, *, seconds_max: float = REQUEST_SECONDS_MAX
    ) -> Accepted | Rejected:
        """Send a command until it is answered."""
        incoming = IncomingCommand(
            f"{command.service}.{command.topic}", command.model_dump_json().encode(), context
        )
        try:
            async with asyncio.timeout(seconds_max):
                while True:
                    servants = self.network.servants[command.service]
                    if servants:
                        turn = self.network.turns[command.service]
                        self.network.turns[command.service] += 1
                        reply = await servants[turn % len(servants)](incoming)
                        return REPLY.validate_json(reply.model_dump_json())
                    await asyncio.sleep(ATTEMPT_PAUSE_SECONDS)
        except TimeoutError as late:
            raise BusUnavailable(f"{command.service}.{command.topic}: no answer") from late

    async def serve(self, service: str, answer: Answer) -> None:
        """Answer the commands of a service."""
        self.network.servants[service].append(answer)

    async def publish_events(self, service: str, events: list[StoredEvent]) -> None:
        """Publish events in order."""
        self.network.events[service] += events
        for event in events:
            for ring in self.network.listeners[f"{service}.{event.topic}"]:
                ring()

    async def hear_events(self, service: str, topic: str, ring: Ring) -> None:
        """Ring when an event of this topic is published."""
        self.network.listeners[f"{service}.{topic}"].append(ring)

    async def publish_delta(self, subject: str, payload: bytes) -> None:
        """Tell whoever listens now."""
        for deliver in list(self.network.deltas[subject]):
            deliver(payload)

    async def subscribe_deltas(self, subject: str, deliver: Deliver) -> MemorySubscription:
        """Hear the deltas of a subject from now on."""
        self.network.deltas[subject].append(deliver)
        return MemorySubscription(self.network, subject, deliver)


@dataclass(frozen=True, slots=True)
class MemorySubscription:
    """A subscription that can be ended."""

    network: MemoryNetwork
    subject: str
    deliver: Deliver

    async def end(self) -> None:
        """Stop delivering."""
        self.network.deltas[self.subject].remove(self.deliver)
