"""Deltas on NATS: core messages, of which a stream keeps the tokens for a while."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, cast

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription as NatsSubscription
from nats.errors import Error as NatsError

from libs.bus import message_headers
from libs.bus.nats_connection import NatsConnection
from libs.bus.ports import Deliver
from libs.contracts.stream_definitions import TOKENS_STREAM

log = logging.getLogger(__name__)

KEPT_SECONDS_MAX = 1.0


class NatsDeltas:
    """The deltas that one process publishes and hears. With an `origin` it hears only those of
    others: its own bear that mark."""

    def __init__(self, connection: NatsConnection, origin: str = "") -> None:
        self.connection = connection
        self.origin = origin
        self.marks = {message_headers.ORIGIN: origin} if origin else {}

    async def publish_delta(
        self, subject: str, payload: bytes, *, replaces_kept: bool = False
    ) -> None:
        """Publish a delta; nobody stores it."""
        sent_headers = message_headers.LAST_OF_SUBJECT | self.marks if replaces_kept else self.marks
        try:
            await self.connection.client.publish(subject, payload, headers=sent_headers or None)
        except NatsError as problem:
            log.debug("delta dropped: %s", problem)

    async def kept_deltas(self, subject: str) -> list[bytes]:
        """The tokens of a subject that the stream still has."""
        jetstream = self.connection.client.jetstream(timeout=KEPT_SECONDS_MAX)
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

    async def kept_subjects(self, pattern: str) -> list[str]:
        """The subjects of which the stream still has tokens."""
        jetstream = self.connection.client.jetstream(timeout=KEPT_SECONDS_MAX)
        try:
            info = await jetstream.stream_info(TOKENS_STREAM, subjects_filter=pattern)
        except (TimeoutError, NatsError) as problem:
            log.debug("kept tokens cannot be listed: %s", problem)
            return []
        return list(info.state.subjects or {})

    async def subscribe_deltas(self, subject: str, deliver: Deliver) -> DeltaSubscription:
        """Hear the deltas of a subject from now on."""

        def on_delta(message: Msg) -> None:
            origin = message.headers and message.headers.get(message_headers.ORIGIN)
            if not origin or origin != self.origin:
                deliver(message.subject, message.data)

        client = self.connection.client
        return DeltaSubscription(await subscribe_directly(client, subject, on_delta))


class Direct:
    """A stand-in for nats-py's future of the next message: gets each message as it comes. A
    callback would wait for a task of its subscription, behind a queue."""

    def __init__(self, heard: Callable[[Msg], None]) -> None:
        self.heard = heard

    def cancelled(self) -> bool:
        """Whether nobody waits any more: never."""
        return False

    def set_result(self, message: Msg) -> None:
        """A message came. A process edge: the reader of the connection must not end of a bug."""
        try:
            self.heard(message)
        except Exception:
            log.exception("a message to %s is lost", message.subject)


async def subscribe_directly(
    client: Client, subject: str, heard: Callable[[Msg], None]
) -> NatsSubscription:
    """Hear what is published, at once: `heard` must neither wait nor take long."""
    return await client.subscribe(subject, future=cast(Any, Direct(heard)))


class DeltaSubscription:
    """A core subscription that can be ended, also while NATS is away."""

    def __init__(self, subscription: NatsSubscription) -> None:
        self.subscription = subscription

    async def end(self) -> None:
        try:
            await self.subscription.unsubscribe()
        except NatsError as problem:
            log.debug("unsubscribing failed: %s", problem)
