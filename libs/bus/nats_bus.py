"""The bus on NATS JetStream, with FastStream holding the subscriptions.

Commands go by core publish into a work-queue stream and are pushed to a queue group, one subject
for each service; they are sent again until they are answered, so a NATS that lost its store costs
a second, not a command.
"""

from __future__ import annotations

from nats.aio.client import Client

from libs.bus.message_telemetry import below, sending
from libs.bus.nats_command_client import NatsRequests
from libs.bus.nats_command_consumer import NatsCommands
from libs.bus.nats_connection import NatsConnection
from libs.bus.nats_deltas import NatsDeltas
from libs.bus.nats_events import NatsEvents
from libs.bus.ports import (
    REQUEST_SECONDS_MAX,
    Answer,
    Deliver,
    IncomingCommand,
    Notify,
    Subscription,
    outgoing,
)
from libs.contracts.bus_messages import Accepted, Command, Context, Rejected
from libs.eventstore.ports import StoredEvent


class NatsBus:
    """Keeps the contract of `ports.Bus`. `holder` names this process and its reply subject."""

    def __init__(self, url: str, holder: str) -> None:
        self.holder = holder
        self.connection = NatsConnection(url, holder)
        self.requests = NatsRequests(self.connection)
        self.commands = NatsCommands(self.connection)
        self.events = NatsEvents(self.connection)
        self.deltas = NatsDeltas(self.connection)

    @property
    def client(self) -> Client:
        """The client of NATS; another one before `start` than after it."""
        return self.connection.client

    @property
    def connected(self) -> bool:
        """Whether NATS can be reached now."""
        return self.connection.connected

    @property
    def reconnects(self) -> int:
        """The number of times that the connection was lost and made again."""
        return self.connection.reconnects

    async def start(self) -> None:
        """Connect, declare streams and consumers, begin to deliver."""
        await self.connection.connect()
        await self.requests.hear_replies()
        await self.connection.begin()

    async def stop(self) -> None:
        """Take nothing new, finish what is in flight, disconnect."""
        self.connection.declarations.stop()
        await self.stop_serving()
        await self.connection.disconnect()

    async def answers(self, seconds_max: float) -> bool:
        """Whether NATS brings back in time what this process sends itself."""
        return await self.requests.answers(seconds_max)

    async def stores(self, incoming: IncomingCommand, seconds_max: float) -> bool:
        """Whether NATS stores a command in time; to which no answer is awaited."""
        return await self.requests.stores(incoming, seconds_max)

    # Commands

    async def request(
        self, command: Command, context: Context, *, seconds_max: float = REQUEST_SECONDS_MAX
    ) -> Accepted | Rejected:
        """Send a command until it is answered; see `ports.Bus.request`."""
        with sending(command, context) as span:
            outgoing_command = outgoing(command, below(span, context))
            return await self.resend(outgoing_command, seconds_max=seconds_max)

    async def resend(
        self, incoming: IncomingCommand, *, seconds_max: float = REQUEST_SECONDS_MAX
    ) -> Accepted | Rejected:
        """Send a command that arrived before, until it is answered."""
        return await self.requests.resend(incoming, seconds_max=seconds_max)

    async def serve(self, service: str, answer: Answer) -> None:
        """Answer the commands of a service. Call it before `start`."""
        await self.commands.serve(service, answer)

    async def stop_serving(self) -> None:
        """Take no more commands and finish those that arrived, as far as there is time."""
        await self.commands.stop_serving()

    # Events

    async def publish_events(self, service: str, events: list[StoredEvent]) -> None:
        """Publish in order; see `ports.Bus.publish_events`."""
        await self.events.publish_events(service, events)

    async def forget_events(self, service: str) -> None:
        """Empty the stream of a service's events. Raises BusUnavailable."""
        await self.events.forget_events(service)

    async def hear_events(self, service: str, topic: str, notify: Notify) -> None:
        """Call `notify` whenever such an event is published. Call it before `start`."""
        await self.events.hear_events(service, topic, notify)

    # Deltas

    async def publish_delta(
        self, subject: str, payload: bytes, *, replaces_kept: bool = False
    ) -> None:
        """Publish a delta; nobody stores it."""
        await self.deltas.publish_delta(subject, payload, replaces_kept=replaces_kept)

    async def kept_deltas(self, subject: str) -> list[bytes]:
        """The tokens of a subject that the stream still has."""
        return await self.deltas.kept_deltas(subject)

    async def kept_subjects(self, pattern: str) -> list[str]:
        """The subjects of which the stream still has tokens."""
        return await self.deltas.kept_subjects(pattern)

    async def subscribe_deltas(self, subject: str, deliver: Deliver) -> Subscription:
        """Hear the deltas of a subject from now on."""
        return await self.deltas.subscribe_deltas(subject, deliver)
