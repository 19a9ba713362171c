"""The connection of a process to NATS, and the streams and consumers that it declares there."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
from typing import Any
from urllib.parse import urlsplit

from faststream.nats import NatsBroker
from nats.aio.client import Client
from nats.errors import Error as NatsError

from libs.bus.jetstream import commands_consumer, make_stream
from libs.contracts.nats_permissions import ADMIN, inbox_prefix
from libs.contracts.stream_definitions import COMMANDS_STREAM, STREAM_NAMES, streams

log = logging.getLogger(__name__)

DECLARE_EVERY_SECONDS = 5.0
DECLARE_RETRY_SECONDS = 0.2
ANSWER_SECONDS_MAX = 2
HEADER_BYTES_MAX = 64 * 1024  # of ours; NATS counts them with the payload, its client does not


class NatsConnection:
    """Connects, and again whenever the connection is lost; then everything is declared again.

    `inbox` is the subject of this process's replies, below the inboxes that only the user of the
    url may read. `broker` is FastStream's, which holds the subscriptions. For each service that is
    `served` here there will be a consumer of its commands.
    """

    def __init__(self, url: str, holder: str) -> None:
        inboxes = inbox_prefix(urlsplit(url).username or ADMIN)
        self.inbox = f"{inboxes}.{holder}"
        self.served: list[str] = []
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

    async def connect(self) -> None:
        """Connect. Nothing is declared, and nothing delivered, before `begin`."""
        self.client = await self.broker.connect()

    async def begin(self) -> None:
        """Declare streams and consumers, from now on again and again, and begin to deliver."""
        await self.declare_at_last()
        await self.broker.start()
        self.declaring = asyncio.create_task(self.keep_declared())

    def stop_declaring(self) -> None:
        """What is missing from now on stays so."""
        if self.declaring:
            self.declaring.cancel()

    async def disconnect(self) -> None:
        """End the subscriptions and the connection, also while NATS is away."""
        try:
            await self.broker.stop()
        except NatsError as problem:
            log.warning("nats is away while stopping: %s", problem)
            # The client would write what it still has to a connection that is gone, and fail.
            self.client._pending_data_size = 0
            await self.client.close()

    async def reconnected(self) -> None:
        """NATS is back, perhaps without its store: declare everything again, now."""
        log.info("nats reconnected")
        self.undeclared.set()

    async def disconnected(self) -> None:
        """Say so once."""
        log.warning("nats disconnected")

    async def keep_declared(self) -> None:
        """Declare again after every reconnect, and where a look from time to time finds something
        missing."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DECLARE_EVERY_SECONDS):
                    await self.undeclared.wait()
            streams_too = self.undeclared.is_set() or await self.streams_missing()
            self.undeclared.clear()
            await self.declare_at_last(streams_too=streams_too)

    async def streams_missing(self) -> bool:
        """Whether a declared stream is not there, or nobody says that it is. One question for all
        of them: to ask for each of them to be made was most of what NATS did when nothing went
        on."""
        try:
            answer = await self.client.request(STREAM_NAMES, timeout=ANSWER_SECONDS_MAX)
        except (NatsError, TimeoutError, OSError):
            return True
        present = json.loads(answer.data).get("streams") or ()
        return any(spec.name not in present for spec in streams())

    async def declare_at_last(self, *, streams_too: bool = True) -> None:
        """Declare everything, however often NATS is too busy for it, or away again."""
        while True:
            try:
                if streams_too:
                    await self.declare_streams()
                await self.declare_consumers()
            except (NatsError, TimeoutError, OSError) as problem:
                log.warning("cannot declare streams: %s", problem)
                streams_too = True
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

    async def declare_streams(self) -> None:
        """Make sure that every stream exists. One that is there stays as the migration left it: a
        service has no right to change a stream."""
        jetstream = self.client.jetstream(timeout=ANSWER_SECONDS_MAX)
        for spec in streams():
            await make_stream(jetstream, spec)

    async def declare_consumers(self) -> None:
        """Make sure that there is a consumer for each service served here."""
        jetstream = self.client.jetstream(timeout=ANSWER_SECONDS_MAX)
        for service in self.served:
            await jetstream.add_consumer(COMMANDS_STREAM, commands_consumer(service))


async def undecoded(message: Any) -> Any:
    """Hand a message to its handler as it came: what FastStream takes for a decoder."""
    return message
