"""The bus on NATS JetStream, with FastStream holding the subscriptions.

Commands go by core publish into a work-queue stream and are pushed to a queue group, one subject
for each service; they are sent again until they are answered, so a NATS that lost its store costs
a second, not a command. Acknowledgement is by hand: FastStream's own policies end a message after
one exception, or redeliver it without a pause.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from typing import Any
from urllib.parse import urlsplit

from faststream import AckPolicy
from faststream.nats import NatsBroker
from faststream.nats.message import NatsMessage
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription as NatsSubscription
from nats.errors import BadHeaderError, BadSubjectError, MaxPayloadError
from nats.errors import Error as NatsError
from nats.js.errors import BadRequestError

from libs.bus import headers
from libs.bus.by_reference import EVENT_BYTES_MAX, published_payload
from libs.bus.jetstream import commands_consumer, make_stream
from libs.bus.observed import below, sending
from libs.bus.ports import (
    REQUEST_SECONDS_MAX,
    Answer,
    BusUnavailable,
    Deliver,
    Expired,
    IncomingCommand,
    Ring,
    TryAgain,
    is_answer,
    outgoing,
    reply_payload,
    too_large,
)
from libs.contracts.message import REPLY, Accepted, Command, Context, Rejected, event_subject
from libs.contracts.permissions import ADMIN, inbox_prefix
from libs.contracts.streams import (
    COMMANDS_STREAM,
    DELIVERIES_OF_COMMANDS,
    TOKENS_STREAM,
    streams,
)
from libs.eventstore.ports import StoredEvent, StoreUnavailable

log = logging.getLogger(__name__)

RESEND_SECONDS = (0.5, 1.0, 2.0)
REDELIVERY_SECONDS = (0.2, 1.0, 3.0, 10.0, 30.0)
DECLARE_EVERY_SECONDS = 5.0
DECLARE_RETRY_SECONDS = 0.2
PUBLISH_ACK_SECONDS_MAX = 2.0
KEPT_SECONDS_MAX = 1.0
DRAIN_SECONDS_MAX = 8.0
HEADER_BYTES_MAX = 64 * 1024  # of ours; NATS counts them with the payload, its client does not

# What NATS will never take, whatever the time.
REFUSED = (BadHeaderError, BadRequestError, BadSubjectError, MaxPayloadError)


class NatsBus:
    """Keeps the contract of `ports.Bus`. `holder` names this process and its reply subject, which
    is below the inboxes that only the user of the url may read."""

    def __init__(self, url: str, holder: str) -> None:
        self.holder = holder
        inboxes = inbox_prefix(urlsplit(url).username or ADMIN)
        self.inbox = f"{inboxes}.{holder}"
        self.replies: dict[str, asyncio.Future[bytes]] = {}
        self.tokens = count(1)
        self.served: list[str] = []
        self.takers: list[Any] = []
        self.in_flight: set[asyncio.Task[None]] = set()
        self.handled: set[tuple[str, str]] = set()
        self.undeclared = asyncio.Event()
        self.declaring: asyncio.Task[None] | None = None
        self.client = Client()
        self.broker = NatsBroker(
            url,
            apply_types=False,
            logger=None,
            name=holder,
            inbox_prefix=inboxes,
            reconnect_time_wait=0.2,  # type: ignore[arg-type]
            max_reconnect_attempts=-1,
            ping_interval=5,
            reconnected_cb=self.reconnected,
            disconnected_cb=self.disconnected,
        )

    @property
    def connected(self) -> bool:
        """Whether NATS can be reached now."""
        return bool(self.client.is_connected)

    @property
    def payload_bytes_max(self) -> int:
        """How large a payload may be. NATS disconnects who sends more, so it must not be tried."""
        return max(self.client.max_payload - HEADER_BYTES_MAX, HEADER_BYTES_MAX)

    @property
    def reconnects(self) -> int:
        """How often the connection was lost and made again."""
        return self.client.stats["reconnects"]

    async def start(self) -> None:
        """Connect, declare streams and consumers, begin to deliver."""
        self.client = await self.broker.connect()
        await self.client.subscribe(f"{self.inbox}.*", cb=self.on_reply)
        await self.declare_at_last()
        await self.broker.start()
        self.declaring = asyncio.create_task(self.keep_declared())

    async def stop(self) -> None:
        """Take nothing new, finish what is in flight, disconnect."""
        if self.declaring:
            self.declaring.cancel()
        await self.stop_serving()
        try:
            await self.broker.stop()
        except NatsError as problem:
            log.warning("nats is away while stopping: %s", problem)
            # The client would write what it still has to a connection that is gone, and fail.
            self.client._pending_data_size = 0
            await self.client.close()

    async def stop_serving(self) -> None:
        """Take no more commands and finish those that arrived, as far as there is time.

        The subscription is drained here, because FastStream throws away what it has not begun.
        """
        with contextlib.suppress(TimeoutError, NatsError):
            async with asyncio.timeout(DRAIN_SECONDS_MAX):
                for taker in self.takers:
                    if taker.subscription is not None:
                        subscription, taker.subscription = taker.subscription, None
                        await subscription.drain()
        self.takers = []
        if self.in_flight:
            await asyncio.wait(self.in_flight, timeout=DRAIN_SECONDS_MAX)

    # Streams and consumers

    async def reconnected(self) -> None:
        """NATS is back, perhaps without its store: declare everything again, now."""
        log.info("nats reconnected")
        self.undeclared.set()

    async def disconnected(self) -> None:
        """Say so once."""
        log.warning("nats disconnected")

    async def keep_declared(self) -> None:
        """Declare again after every reconnect, and from time to time."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DECLARE_EVERY_SECONDS):
                    await self.undeclared.wait()
            self.undeclared.clear()
            await self.declare_at_last()

    async def declare_at_last(self) -> None:
        """Declare everything, however often NATS is too busy for it, or away again."""
        while True:
            try:
                await self.declare()
            except (NatsError, TimeoutError, OSError) as problem:
                log.warning("cannot declare streams: %s", problem)
                self.revive()
                await asyncio.sleep(DECLARE_RETRY_SECONDS)
            else:
                return

    def revive(self) -> None:
        """Go on reconnecting where the client has stopped trying. Its attempt ends for good by an
        exception that it does not expect: uvloop raises RuntimeError, not OSError, where it writes
        to a connection that has just been lost again. A client that was closed by the server's
        word cannot be opened again; then a new process has to do it."""
        attempt = self.client._reconnection_task
        if self.client.is_reconnecting and attempt is not None and attempt.done():
            log.warning("nats is tried again: the last attempt broke off")
            self.client._reconnection_task = asyncio.create_task(self.client._attempt_reconnect())
        elif self.client.is_closed:
            log.critical("nats closed the connection for good: %s", self.client.last_error)
            signal.raise_signal(signal.SIGTERM)

    async def declare(self) -> None:
        """Make sure that every stream exists, and a consumer for each service served here. One that
        is there stays as the migration left it: a service has no right to change a stream."""
        jetstream = self.client.jetstream(timeout=2)
        for spec in streams():
            await make_stream(jetstream, spec)
        for service in self.served:
            await jetstream.add_consumer(COMMANDS_STREAM, commands_consumer(service))

    # Commands

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
        """Send a command that arrived before, until it is answered."""
        refused = too_large(incoming, self.payload_bytes_max)
        if refused:
            return refused
        token = str(next(self.tokens))
        reply: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.replies[token] = reply
        sent_headers = headers.of_command(incoming, f"{self.inbox}.{token}")
        began = time.monotonic()
        try:
            async with asyncio.timeout(seconds_max):
                for pause in resend_pauses():
                    headers.waiting(sent_headers, time.monotonic() - began, seconds_max)
                    await self.client.publish(
                        incoming.subject, incoming.payload, headers=headers.written(sent_headers)
                    )
                    await asyncio.wait([reply], timeout=pause)
                    if reply.done():
                        answer = REPLY.validate_json(reply.result())
                        if is_answer(answer, sent_again=headers.RESENT in sent_headers):
                            return answer
                        reply = self.replies[token] = asyncio.get_running_loop().create_future()
                        await asyncio.sleep(pause)
                    sent_headers[headers.RESENT] = "true"
        except (TimeoutError, NatsError) as problem:
            raise BusUnavailable(f"{incoming.name}: no answer") from problem
        finally:
            del self.replies[token]
        raise AssertionError("resending never ends")

    async def answers(self, seconds_max: float) -> bool:
        """Whether NATS brings back in time what this process sends itself.

        A ping must not be given up on: a pong that finds nobody waiting ends the client's reading
        for good, and the process is deaf until the client gives up the connection, 15 s later.
        """
        if not self.connected:
            return False
        token = str(next(self.tokens))
        echo: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.replies[token] = echo
        try:
            await self.client.publish(f"{self.inbox}.{token}", b"")
            await asyncio.wait([echo], timeout=seconds_max)
        except NatsError:
            return False
        finally:
            del self.replies[token]
        return echo.done()

    async def on_reply(self, message: Msg) -> None:
        """Wake the request that this answers; a second answer finds nobody, which is fine."""
        waiting = self.replies.get(message.subject.rpartition(".")[2])
        if waiting is not None and not waiting.done():
            waiting.set_result(message.data)

    async def serve(self, service: str, answer: Answer) -> None:
        """Answer the commands of a service. Call it before `start`."""
        self.served.append(service)

        async def take(message: NatsMessage) -> None:
            raw = message.raw_message
            copy = request_of(raw)
            if copy in self.handled:
                await self.client.publish(raw.reply, done_with_copy(raw.reply))
                return
            self.handled.add(copy)
            task = asyncio.create_task(self.answer_one(raw, answer))
            self.in_flight.add(task)
            task.add_done_callback(lambda done: self.finished(done, copy))

        taker = self.broker.subscriber(
            DELIVERIES_OF_COMMANDS.format(service=service),
            queue=service,
            decoder=as_is,
            no_reply=True,
            ack_policy=AckPolicy.MANUAL,
        )
        taker(take)
        # FastStream makes one for each message, though it has no logger to give it to.
        taker.get_log_context = no_log_context  # type: ignore[assignment, method-assign]
        self.takers.append(taker)

    def finished(self, task: asyncio.Task[None], request: tuple[str, str]) -> None:
        """A command is answered, or will come again."""
        self.in_flight.discard(task)
        self.handled.discard(request)

    async def answer_one(self, message: Msg, answer: Answer) -> None:
        """Answer and acknowledge one command, or ask for it again later. A process edge: whatever
        goes wrong is logged here, and the command is not lost."""
        sent = message.headers or {}
        incoming = incoming_of(message)
        try:
            reply = await answer(incoming)
            if sent.get(headers.REPLY_TO):
                payload = reply_payload(reply, self.payload_bytes_max)
                await self.client.publish(sent[headers.REPLY_TO], payload)
            await self.client.publish(message.reply, b"+ACK")
        except Expired:
            log.info("command %s is dropped: nobody waits for it", message.subject)
            await self.settle(message, b"+TERM")
        except TryAgain as later:
            await self.settle(message, nak(later.seconds))
        except StoreUnavailable as problem:
            delay = redelivery_delay(message.reply)
            log.warning("command %s waits, again in %s s: %s", message.subject, delay, problem)
            await self.settle(message, nak(delay))
        except Exception:
            delay = redelivery_delay(message.reply)
            log.exception("command %s failed, again in %s s", message.subject, delay)
            await self.settle(message, nak(delay))

    async def settle(self, message: Msg, how: bytes) -> None:
        """Tell JetStream what becomes of a command that is not answered."""
        with contextlib.suppress(NatsError):
            await self.client.publish(message.reply, how)

    # Events

    async def publish_events(self, service: str, events: list[StoredEvent]) -> None:
        """Publish in order on one connection; the last one waits for the stream to say that it
        has it, which it only can after the ones before."""
        if not self.connected:
            raise BusUnavailable("nats is not connected")
        *leading, last = events
        bytes_max = min(EVENT_BYTES_MAX, self.payload_bytes_max)
        jetstream = self.client.jetstream(timeout=PUBLISH_ACK_SECONDS_MAX)
        try:
            for event in leading:
                subject, payload, sent = published(service, event, bytes_max)
                await self.client.publish(subject, payload, headers=headers.written(sent))
            subject, payload, sent = published(service, last, bytes_max)
            await jetstream.publish(subject, payload, headers=headers.written(sent))
        except REFUSED:
            raise
        except (TimeoutError, NatsError, OSError, RuntimeError) as problem:
            # uvloop raises RuntimeError where it writes to a connection that was just lost: that is
            # the fault of no event, which the relay would leave out.
            raise BusUnavailable(f"events of {service} were not taken") from problem

    async def hear_events(self, service: str, topic: str, ring: Ring) -> None:
        """Ring whenever such an event is published. Call it before `start`."""

        async def on_event(message: NatsMessage) -> None:
            ring()

        subject = f"{service}.event.{topic}.>"
        self.broker.subscriber(subject, decoder=as_is, no_reply=True)(on_event)

    # Deltas

    async def publish_delta(
        self, subject: str, payload: bytes, *, replaces_kept: bool = False
    ) -> None:
        """Tell whoever listens now."""
        sent_headers = headers.LAST_OF_SUBJECT if replaces_kept else None
        try:
            await self.client.publish(subject, payload, headers=sent_headers)
        except NatsError as problem:
            log.debug("delta dropped: %s", problem)

    async def kept_deltas(self, subject: str) -> list[bytes]:
        """The tokens of a subject that the stream still has."""
        jetstream = self.client.jetstream(timeout=KEPT_SECONDS_MAX)
        kept: list[bytes] = []
        try:
            reader = await jetstream.subscribe(subject, stream=TOKENS_STREAM, ordered_consumer=True)
            try:
                info = await reader.consumer_info()
                sent = info.delivered.consumer_seq if info.delivered else 0
                while len(kept) < sent + (info.num_pending or 0):
                    kept.append((await reader.next_msg(timeout=KEPT_SECONDS_MAX)).data)
            finally:
                await reader.unsubscribe()
        except (TimeoutError, NatsError) as problem:
            log.debug("kept tokens of %s cannot be read: %s", subject, problem)
        return kept

    async def subscribe_deltas(self, subject: str, deliver: Deliver) -> DeltaSubscription:
        """Hear the deltas of a subject from now on."""

        async def on_delta(message: Msg) -> None:
            deliver(message.subject, message.data)

        return DeltaSubscription(await self.client.subscribe(subject, cb=on_delta))


class DeltaSubscription:
    """A core subscription that can be ended, also while NATS is away."""

    def __init__(self, subscription: NatsSubscription) -> None:
        self.subscription = subscription

    async def end(self) -> None:
        """Stop delivering."""
        try:
            await self.subscription.unsubscribe()
        except NatsError as problem:
            log.debug("unsubscribing failed: %s", problem)


def no_log_context(_: Any) -> dict[str, str]:
    """What FastStream would log of a message."""
    return {}


async def as_is(message: Any) -> Any:
    """Hand the message to the handler as it came, undecoded."""
    return message


def resend_pauses() -> Iterator[float]:
    """How long to wait for an answer before sending again, without end."""
    yield from RESEND_SECONDS
    while True:
        yield RESEND_SECONDS[-1]


def incoming_of(message: Msg) -> IncomingCommand:
    """A command as it arrived, whatever is missing in it."""
    sent = message.headers or {}
    service, _, aggregate, verb, *_ = message.subject.split(".")
    name = sent.get("ce-type") or f"{service}.{aggregate}.{verb}"
    sequence, nanoseconds = message.reply.split(".")[5:8:2]
    stored_at = datetime.fromtimestamp(int(nanoseconds) / 1e9, UTC)
    again = deliveries(message.reply) > 1 or headers.RESENT in sent
    context = headers.context_of(sent, f"{sequence}.{nanoseconds}", stored_at)
    left = headers.seconds_left(sent) - waited_between(deliveries(message.reply))
    return IncomingCommand(
        name,
        message.data,
        context,
        message.subject,
        again,
        seconds_left=left,
        last_delivery=left <= redelivery_delay(message.reply),
    )


def request_of(message: Msg) -> tuple[str, str]:
    """Which request a command belongs to: that sends it, and waits for the answer, once; what it
    sends again has the same id and the same reply subject."""
    sent = message.headers or {}
    return sent.get("ce-id") or message.reply, sent.get(headers.REPLY_TO, "")


def done_with_copy(ack_subject: str) -> bytes:
    """What JetStream is told of a copy of a command that is being handled: a copy of its own is
    done with, the same message delivered again is being worked on."""
    return b"+WPI" if deliveries(ack_subject) > 1 else b"+ACK"


def nak(seconds: float) -> bytes:
    """Ask JetStream to deliver a command again after a pause."""
    return b'-NAK {"delay": %d}' % int(seconds * 1e9)


def deliveries(ack_subject: str) -> int:
    """How often a message was delivered: JetStream counts it in the ack subject,
    `$JS.ACK.<stream>.<consumer>.<delivered>.<sequence>.<consumer's sequence>.<time>.<pending>`."""
    return int(ack_subject.split(".")[4])


def waited_between(count: int) -> float:
    """Seconds that passed at least between the first delivery of a command and a later one."""
    return sum(REDELIVERY_SECONDS[: count - 1])


def redelivery_delay(ack_subject: str) -> float:
    """Seconds to wait before the next attempt."""
    attempt = deliveries(ack_subject)
    return REDELIVERY_SECONDS[min(attempt, len(REDELIVERY_SECONDS)) - 1]


def published(
    service: str, event: StoredEvent, bytes_max: int
) -> tuple[str, bytes, dict[str, str]]:
    """Subject, payload and headers of an event."""
    subject = event_subject(service, event.topic, event.org, event.about)
    payload, referred = published_payload(service, event, bytes_max)
    sent = headers.of_event(service, event)
    if referred:
        sent[headers.BY_REFERENCE] = ",".join(referred)
    return subject, payload, sent
