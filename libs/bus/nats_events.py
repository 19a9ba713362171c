"""Events on NATS: published in order into the stream of their service, and heard."""

from __future__ import annotations

from faststream.nats.message import NatsMessage
from nats.errors import BadHeaderError, BadSubjectError, MaxPayloadError
from nats.errors import Error as NatsError
from nats.js.errors import BadRequestError

from libs.bus import message_headers
from libs.bus.large_events import EVENT_BYTES_MAX, published_payload
from libs.bus.message_headers import encoded_headers
from libs.bus.nats_connection import NatsConnection, keep_undecoded
from libs.bus.pauses import with_pauses
from libs.bus.ports import BusUnavailable, Notify
from libs.contracts.bus_messages import event_subject
from libs.contracts.service_registry import events_stream
from libs.eventstore.ports import StoredEvent

PUBLISH_ACK_SECONDS_MAX = 2.0

# What NATS will never take, whatever the time.
REFUSED = (BadHeaderError, BadRequestError, BadSubjectError, MaxPayloadError)


class NatsEvents:
    """The events that one process publishes and hears."""

    def __init__(self, connection: NatsConnection) -> None:
        self.connection = connection

    async def publish_events(self, service: str, events: list[StoredEvent]) -> None:
        """Publish in order on one connection; the last one waits for the stream to say that it
        has it, which it only can after the ones before."""
        if not self.connection.connected:
            raise BusUnavailable("nats is not connected")
        *leading, last = events
        bytes_max = min(EVENT_BYTES_MAX, self.connection.payload_bytes_max)
        client = self.connection.client
        jetstream = client.jetstream(timeout=PUBLISH_ACK_SECONDS_MAX)
        try:
            async for event in with_pauses(leading):
                subject, payload, sent = event_message(service, event, bytes_max)
                await client.publish(subject, payload, headers=encoded_headers(sent))
            subject, payload, sent = event_message(service, last, bytes_max)
            await jetstream.publish(subject, payload, headers=encoded_headers(sent))
        except REFUSED:
            raise
        except (TimeoutError, NatsError, OSError, RuntimeError) as problem:
            # uvloop raises RuntimeError where it writes to a connection that was just lost: that is
            # the fault of no event, which the relay would leave out.
            raise BusUnavailable(f"events of {service} were not taken") from problem

    async def forget_events(self, service: str) -> None:
        """Empty the stream of a service's events. Raises BusUnavailable."""
        try:
            await self.connection.client.jetstream().purge_stream(events_stream(service))
        except (TimeoutError, NatsError, OSError, RuntimeError) as problem:
            raise BusUnavailable(f"the events of {service} stay in their stream") from problem

    async def hear_events(self, service: str, topic: str, notify: Notify) -> None:
        """Call `notify` whenever such an event is published. Call it before `start`."""

        async def on_event(message: NatsMessage) -> None:
            notify()

        subject = f"{service}.event.{topic}.>"
        self.connection.broker.subscriber(subject, decoder=keep_undecoded, no_reply=True)(on_event)


def event_message(
    service: str, event: StoredEvent, bytes_max: int
) -> tuple[str, bytes, dict[str, str]]:
    """Subject, payload and headers of an event."""
    subject = event_subject(service, event.topic, event.org, event.about)
    payload, referred = published_payload(service, event, bytes_max)
    sent = message_headers.of_event(service, event)
    if referred:
        sent[message_headers.BY_REFERENCE] = ",".join(referred)
    return subject, payload, sent
