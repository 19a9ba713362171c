"""Requests over NATS: commands that are sent until they are answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from itertools import count

from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from libs.bus import message_headers
from libs.bus.nats_connection import NatsConnection
from libs.bus.nats_deltas import subscribe_directly
from libs.bus.ports import (
    REQUEST_SECONDS_MAX,
    BusUnavailable,
    IncomingCommand,
    is_answer,
    too_large,
)
from libs.contracts.bus_messages import REPLY, Accepted, Rejected
from libs.contracts.stream_definitions import is_stored

RESEND_SECONDS = (0.5, 1.0, 2.0)


class NatsRequests:
    """The requests of one process. Each has a token of its own; the answer comes to the subject
    `<inbox>.<token>`, and all of them by one subscription."""

    def __init__(self, connection: NatsConnection) -> None:
        self.connection = connection
        self.replies: dict[str, asyncio.Future[bytes]] = {}
        self.tokens = count(1)

    async def hear_replies(self) -> None:
        """Subscribe to the answers. Call it when the connection is there."""
        await subscribe_directly(
            self.connection.client, f"{self.connection.inbox}.*", self.on_reply
        )

    async def resend(
        self,
        incoming: IncomingCommand,
        *,
        seconds_max: float = REQUEST_SECONDS_MAX,
        began: float | None = None,
    ) -> Accepted | Rejected:
        """Send a command that arrived before, until it is answered. `began` is when this was begun
        by another way (monotonic seconds), if it was: `seconds_max` counts from then."""
        refused = too_large(incoming, self.connection.payload_bytes_max)
        if refused:
            return refused
        token = str(next(self.tokens))
        reply: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.replies[token] = reply
        sent_headers = message_headers.of_command(incoming, f"{self.connection.inbox}.{token}")
        if began is None:
            began = time.monotonic()
        else:
            sent_headers[message_headers.RESENT] = "true"
        try:
            async with asyncio.timeout(began + seconds_max - time.monotonic()):
                for pause in resend_pauses():
                    message_headers.waiting(sent_headers, time.monotonic() - began, seconds_max)
                    await self.connection.client.publish(
                        incoming.subject,
                        incoming.payload,
                        headers=message_headers.encoded_headers(sent_headers),
                    )
                    given = await within(reply, pause)
                    if given is not None:
                        answer = REPLY.validate_json(given)
                        if is_answer(answer, sent_again=message_headers.RESENT in sent_headers):
                            return answer
                        reply = self.replies[token] = asyncio.get_running_loop().create_future()
                        await asyncio.sleep(pause)
                    sent_headers[message_headers.RESENT] = "true"
        except (TimeoutError, NatsError) as problem:
            raise BusUnavailable(f"{incoming.name}: no answer") from problem
        finally:
            del self.replies[token]
        raise AssertionError("resending never ends")

    async def stores(self, incoming: IncomingCommand, seconds_max: float) -> bool:
        """Send a command to which no answer is awaited; whether NATS says in time that it is
        stored, or that there is no room, which is no failure of its store."""
        token = str(next(self.tokens))
        said: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.replies[token] = said
        headers = message_headers.of_command(incoming, f"{self.connection.inbox}.unread")
        message_headers.waiting(headers, 0.0, seconds_max)
        try:
            await self.connection.client.publish(
                incoming.subject,
                incoming.payload,
                reply=f"{self.connection.inbox}.{token}",
                headers=message_headers.encoded_headers(headers),
            )
            await asyncio.wait([said], timeout=seconds_max)
        except NatsError:
            return False
        finally:
            del self.replies[token]
        return said.done() and is_stored(said.result())

    async def answers(self, seconds_max: float) -> bool:
        """Whether NATS brings back in time what this process sends itself.

        A ping must not be given up on: a pong that finds nobody waiting ends the client's reading
        for good, and the process is deaf until the client gives up the connection, 15 s later.
        """
        if not self.connection.connected:
            return False
        token = str(next(self.tokens))
        echo: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.replies[token] = echo
        try:
            await self.connection.client.publish(f"{self.connection.inbox}.{token}", b"")
            await asyncio.wait([echo], timeout=seconds_max)
        except NatsError:
            return False
        finally:
            del self.replies[token]
        return echo.done()

    def on_reply(self, message: Msg) -> None:
        """Wake the request that this answers; a second answer finds nobody, which is fine."""
        waiting = self.replies.get(message.subject.rpartition(".")[2])
        if waiting is not None and not waiting.done():
            waiting.set_result(message.data)


async def within[T](reply: asyncio.Future[T], seconds: float) -> T | None:
    """The reply, if it comes in time; it may come later. As `asyncio.wait`, which makes a set of
    what it waits for, and calls back in two turns of the event loop."""
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()

    def wake(_: object = None) -> None:
        if not waiter.done():
            waiter.set_result(None)

    timer = loop.call_later(seconds, wake)
    reply.add_done_callback(wake)
    try:
        await waiter
    finally:
        timer.cancel()
        reply.remove_done_callback(wake)
    return reply.result() if reply.done() else None


def resend_pauses() -> Iterator[float]:
    """The seconds to wait for an answer before sending again, without end."""
    yield from RESEND_SECONDS
    while True:
        yield RESEND_SECONDS[-1]
