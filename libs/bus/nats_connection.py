"""The connection of a process to NATS, which is made again whenever it is lost."""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import Any
from urllib.parse import urlsplit

from faststream.nats import NatsBroker
from nats.aio.client import Client
from nats.errors import Error as NatsError

from libs.bus.jetstream_declarations import JetStreamDeclarations
from libs.contracts.nats_permissions import ADMIN, inbox_prefix

log = logging.getLogger(__name__)

HEADER_BYTES_MAX = 64 * 1024  # of ours; NATS counts them with the payload, its client does not


class NatsConnection:
    """Connects, and again whenever the connection is lost; then everything is declared again.

    `inbox` is the subject of this process's replies, below the inboxes that only the user of the
    url may read. `broker` is FastStream's, which holds the subscriptions.
    """

    def __init__(self, url: str, holder: str) -> None:
        inboxes = inbox_prefix(urlsplit(url).username or ADMIN)
        self.inbox = f"{inboxes}.{holder}"
        self.client = Client()
        self.declarations = JetStreamDeclarations(lambda: self.client, self.revive)
        self.broker = NatsBroker(
            url,
            apply_types=False,
            logger=None,
            name=holder,
            inbox_prefix=inboxes,
            reconnect_time_wait=0.2,  # type: ignore[arg-type]
            max_reconnect_attempts=-1,
            ping_interval=5,
            reconnected_cb=self.on_reconnect,
            disconnected_cb=self.on_disconnect,
        )

    @property
    def connected(self) -> bool:
        """Whether NATS can be reached now."""
        return bool(self.client.is_connected)

    @property
    def payload_bytes_max(self) -> int:
        """The bytes of a payload at most. NATS disconnects a client that sends more."""
        return max(self.client.max_payload - HEADER_BYTES_MAX, HEADER_BYTES_MAX)

    @property
    def reconnects(self) -> int:
        """The number of times that the connection was lost and made again."""
        return self.client.stats["reconnects"]

    async def connect(self) -> None:
        """Connect. Nothing is declared, and nothing delivered, before `begin`."""
        self.client = await self.broker.connect()

    async def begin(self) -> None:
        """Declare streams and consumers, from now on again and again, and begin to deliver."""
        await self.declarations.begin()
        await self.broker.start()

    async def disconnect(self) -> None:
        """End the subscriptions and the connection, also while NATS is away."""
        try:
            await self.broker.stop()
        except NatsError as problem:
            log.warning("nats is away while stopping: %s", problem)
            # The client would write what it still has to a connection that is gone, and fail.
            self.client._pending_data_size = 0
            await self.client.close()

    async def on_reconnect(self) -> None:
        """NATS is back, perhaps without its store: declare everything again, now."""
        log.info("nats reconnected")
        self.declarations.again()

    async def on_disconnect(self) -> None:
        """Log that the connection to NATS is lost."""
        log.warning("nats disconnected")

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


async def keep_undecoded(message: Any) -> Any:
    """Hand a message to its handler as it came: what FastStream takes for a decoder."""
    return message
