"""Commands as NATS delivers them: taken, answered, acknowledged or asked for again.

Acknowledgement is by hand: FastStream's own policies end a message after one exception, or
redeliver it without a pause.
"""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from typing import Any

from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from libs.bus import message_headers
from libs.bus.command_attempt import Outcome, attempt
from libs.bus.nats_connection import NatsConnection
from libs.bus.ports import Answer, Expired, IncomingCommand, TryAgain
from libs.contracts.stream_definitions import DELIVERIES_OF_COMMANDS

REDELIVERY_SECONDS = (0.2, 1.0, 3.0, 10.0, 30.0)
DRAIN_SECONDS_MAX = 8.0


class NatsCommands:
    """The commands that one process answers, each as a task, a request once at a time."""

    def __init__(self, connection: NatsConnection) -> None:
        self.connection = connection
        self.takers: list[Any] = []
        self.in_flight: set[asyncio.Task[Any]] = set()
        self.handled: set[tuple[str, str]] = set()

    async def serve(self, service: str, answer: Answer) -> None:
        """Answer the commands of a service. Call it before `start`."""
        self.connection.declarations.served.append(service)

        async def take(raw: Msg) -> None:
            copy = request_of(raw)
            if copy in self.handled:
                await self.connection.client.publish(raw.reply, done_with_copy(raw.reply))
                return
            self.handled.add(copy)
            task = asyncio.create_task(self.answer_one(raw, answer))
            self.in_flight.add(task)
            task.add_done_callback(lambda done: self.finish(done, copy))

        taker = self.connection.broker.subscriber(
            DELIVERIES_OF_COMMANDS.format(service=service), queue=service
        )
        taker(take)
        # As it came: what FastStream would do with a message before is nothing that is used here.
        taker.consume = take  # type: ignore[assignment, method-assign]
        self.takers.append(taker)

    def finish(self, task: asyncio.Task[None], request: tuple[str, str]) -> None:
        """A command is answered, or will come again."""
        self.in_flight.discard(task)
        self.handled.discard(request)

    async def answer_one(self, message: Msg, answer: Answer) -> None:
        """Answer and acknowledge one command, or ask for it again later. Where NATS is away, it
        delivers the command once more."""
        outcome = await attempt(
            answer,
            incoming_of(message),
            bytes_max=self.connection.payload_bytes_max,
            pause_seconds=redelivery_delay(message.reply),
        )
        reply_to = (message.headers or {}).get(message_headers.REPLY_TO)
        with contextlib.suppress(NatsError):
            if reply_to and isinstance(outcome, bytes):
                await self.connection.client.publish(reply_to, outcome)
            await self.connection.client.publish(message.reply, settlement(outcome))

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


def incoming_of(message: Msg) -> IncomingCommand:
    """A command as it arrived, whatever is missing in it."""
    sent = message.headers or {}
    service, _, aggregate, verb, *_ = message.subject.split(".")
    name = sent.get("ce-type") or f"{service}.{aggregate}.{verb}"
    sequence, nanoseconds = message.reply.split(".")[5:8:2]
    stored_at = datetime.fromtimestamp(int(nanoseconds) / 1e9, UTC)
    again = deliveries(message.reply) > 1 or message_headers.RESENT in sent
    context = message_headers.context_of(sent, f"{sequence}.{nanoseconds}", stored_at)
    left = message_headers.seconds_left(sent) - waited_between(deliveries(message.reply))
    return IncomingCommand(
        name,
        message.data,
        context,
        message.subject,
        again,
        seconds_left=left,
        last_delivery=left <= redelivery_delay(message.reply),
        schema_version=message_headers.schema_version(sent),
    )


def request_of(message: Msg) -> tuple[str, str]:
    """Return the id of a command and the subject where its sender waits for the reply. Copies that
    the sender publishes again, because no reply has come, have the same two."""
    sent = message.headers or {}
    return sent.get("ce-id") or message.reply, sent.get(message_headers.REPLY_TO, "")


def done_with_copy(ack_subject: str) -> bytes:
    """The acknowledgement of a copy of a command that is being handled: a second message is done
    with, the same message delivered again is being worked on."""
    return b"+WPI" if deliveries(ack_subject) > 1 else b"+ACK"


def settlement(outcome: Outcome) -> bytes:
    """What JetStream is told of a command: that it is done with, or when to deliver it again."""
    match outcome:
        case TryAgain():
            return b'-NAK {"delay": %d}' % int(outcome.seconds * 1e9)
        case Expired():
            return b"+TERM"
        case _:
            return b"+ACK"


def deliveries(ack_subject: str) -> int:
    """The number of deliveries of a message: JetStream counts it in the ack subject,
    `$JS.ACK.<stream>.<consumer>.<delivered>.<sequence>.<consumer's sequence>.<time>.<pending>`."""
    return int(ack_subject.split(".")[4])


def waited_between(count: int) -> float:
    """Seconds that passed at least between the first delivery of a command and a later one."""
    return sum(REDELIVERY_SECONDS[: count - 1])


def redelivery_delay(ack_subject: str) -> float:
    """Seconds to wait before the next attempt."""
    attempt = deliveries(ack_subject)
    return REDELIVERY_SECONDS[min(attempt, len(REDELIVERY_SECONDS)) - 1]
