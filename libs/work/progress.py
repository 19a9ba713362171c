"""Publish the progress of some work, and follow it to its end.

Long work (a tool run, a question to a model, a discovery) is begun by a command that is answered at
once. Its progress is published as deltas on a subject of its own: a heartbeat (`{}`) every
HEARTBEAT_SECONDS while a process is at work, and then one message with content, the end. Deltas are
delivered at most once, so a follower that hears nothing looks at the row of the work in Postgres.

The process that works, once it is durable that the work has begun:

    async with heartbeats(bus, clock, subject):
        result = await work()
    ...                                    # make the end durable
    await publish_progress(bus, subject, {"result": result})

A client follows before it sends the command, so that it misses nothing:

    async with follow(bus, subject) as progress:
        await bus.request(command, context)
        end = await progress.end(look)     # `look` reads the row after each silence

Work without a row is lost with its process: `end_or_silence` gives it up.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from pydantic_core import from_json, to_json

from libs.bus.ports import Bus, Clock
from libs.contracts.bus_messages import JsonObject

HEARTBEAT_SECONDS = 2.0
# After such a silence a follower looks at the row of the work.
LOOK_SECONDS = 5.0
# After such a silence work without a row is lost. It is longer, since nothing corrects a mistake.
GIVE_UP_SECONDS = 10.0

type ProgressMessage = dict[str, Any]
type Look = Callable[[], Awaitable[ProgressMessage | None]]

HEARTBEAT: JsonObject = {}


async def publish_progress(bus: Bus, subject: str, message: JsonObject) -> None:
    """Publish one message about some work to its followers, at most once."""
    await bus.publish_delta(subject, to_json(message))


@asynccontextmanager
async def heartbeats(bus: Bus, clock: Clock, subject: str) -> AsyncIterator[None]:
    """Publish heartbeats as long as the context lasts; none follows after it."""

    async def beat() -> None:
        while True:
            await publish_progress(bus, subject, HEARTBEAT)
            await clock.sleep(HEARTBEAT_SECONDS)

    beating = asyncio.create_task(beat())
    try:
        yield
    finally:
        beating.cancel()


@asynccontextmanager
async def follow(
    bus: Bus, subject: str, *, wanted: Callable[[ProgressMessage], bool] = lambda _: True
) -> AsyncIterator[Progress]:
    """Hear the messages of a subject, all or those that are `wanted`, as long as the context
    lasts."""
    progress = Progress(wanted)
    subscription = await bus.subscribe_deltas(subject, progress.deliver)
    try:
        yield progress
    finally:
        await subscription.end()


class Progress:
    """The messages about some work that one follower has heard and not read yet."""

    def __init__(self, wanted: Callable[[ProgressMessage], bool]) -> None:
        self.wanted = wanted
        self.heard: asyncio.Queue[ProgressMessage] = asyncio.Queue()

    def deliver(self, _subject: str, payload: bytes) -> None:
        """Take a message as it arrives."""
        message = from_json(payload)
        if self.wanted(message):
            self.heard.put_nowait(message)

    async def next(self, seconds: float) -> ProgressMessage | None:
        """Return the next message, empty for a heartbeat, and None after a silence of so long."""
        try:
            async with asyncio.timeout(seconds):
                return await self.heard.get()
        except TimeoutError:
            return None

    async def end(self, look: Look) -> ProgressMessage:
        """Return the message that ends the work. After each silence `look` reads the row: it
        returns the end, or None where the work goes on, and raises where nobody works any more."""
        while True:
            message = await self.next(LOOK_SECONDS)
            end = await look() if message is None else message
            if end:
                return end

    async def end_or_silence(self) -> ProgressMessage | None:
        """Return the message that ends work without a row, and None once it is lost."""
        while True:
            message = await self.next(GIVE_UP_SECONDS)
            if message is None or message:
                return message
