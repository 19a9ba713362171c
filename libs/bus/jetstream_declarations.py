"""The streams, and the consumers of the services served here, declared for as long as a process
lives: when it begins, after every reconnect, and where a look from time to time misses one."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable

from nats.aio.client import Client
from nats.errors import Error as NatsError

from libs.bus.jetstream import commands_consumer, make_stream
from libs.contracts.stream_definitions import COMMANDS_STREAM, STREAM_NAMES, streams

log = logging.getLogger(__name__)

DECLARE_EVERY_SECONDS = 5.0
DECLARE_RETRY_SECONDS = 0.2
ANSWER_SECONDS_MAX = 2


class JetStreamDeclarations:
    """The declarations of a process, by the client that `client` gives; `revive` is called where
    NATS is away. For each service in `served` there will be a consumer of its commands."""

    def __init__(self, client: Callable[[], Client], revive: Callable[[], None]) -> None:
        self.client = client
        self.revive = revive
        self.served: list[str] = []
        self.asked = asyncio.Event()
        self.keeping: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Declare everything, and from now on again and again."""
        await self.declare_at_last()
        self.keeping = asyncio.create_task(self.keep_declared())

    def again(self) -> None:
        """Declare everything once more, now: the store of NATS may be another one."""
        self.asked.set()

    def stop(self) -> None:
        """End the declarations: anything missing from now on stays so."""
        if self.keeping:
            self.keeping.cancel()

    async def keep_declared(self) -> None:
        """Declare again when it is asked for, and where something is missing."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DECLARE_EVERY_SECONDS):
                    await self.asked.wait()
            asked = self.asked.is_set()
            self.asked.clear()  # before anything is looked at: what is asked meanwhile stays asked
            streams_too = asked or await self.streams_missing()
            await self.declare_at_last(streams_too=streams_too)

    async def streams_missing(self) -> bool:
        """Whether a declared stream is not there, or nobody says that it is. One question for all
        of them: to ask for each of them to be made was most of what NATS did when nothing went
        on."""
        try:
            answer = await self.client().request(STREAM_NAMES, timeout=ANSWER_SECONDS_MAX)
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

    async def declare_streams(self) -> None:
        """Make sure that every stream exists. One that is there stays as the migration left it: a
        service has no right to change a stream."""
        jetstream = self.client().jetstream(timeout=ANSWER_SECONDS_MAX)
        for spec in streams():
            await make_stream(jetstream, spec)

    async def declare_consumers(self) -> None:
        """Make sure that there is a consumer for each service served here."""
        jetstream = self.client().jetstream(timeout=ANSWER_SECONDS_MAX)
        for service in self.served:
            await jetstream.add_consumer(COMMANDS_STREAM, commands_consumer(service))
