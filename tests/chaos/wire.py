"""A TCP proxy that does to a connection what networks do: hold it, slow it down, break it.

Bytes are never altered or dropped from a connection that goes on, for TCP does not do that either:
what is held arrives late, when the sender may no longer count on it, or the connection breaks.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, Self

CHUNK_BYTES_MAX = 1 << 16
CHUNKS_HELD_MAX = 4_096


class Way(Enum):
    """The two ways of a connection."""

    TO_SERVER = "to the server"
    TO_CLIENT = "to the client"


BOTH = frozenset(Way)


@dataclass(slots=True)
class Weather:
    """What happens to the bytes that pass now."""

    delay_seconds: tuple[float, float] = (0.0, 0.0)
    reset_share: float = 0.0  # of the chunks that a client sends


class Tap(Protocol):
    """Reads along on one connection; where it answers False, the connection is cut there and then,
    and the bytes are not passed on."""

    def sent(self, data: bytes) -> bool:
        """The client sent this."""
        ...

    def answered(self, data: bytes) -> bool:
        """The server answered this."""
        ...


class OpenTap:
    """Lets everything through."""

    def sent(self, data: bytes) -> bool:
        return True

    def answered(self, data: bytes) -> bool:
        return True


@dataclass(slots=True, eq=False)
class Wire:
    """Listens for one process's connections to one server, and forwards them."""

    target: Callable[[], int]  # the server's port on this machine, as it is when a client comes
    weather: Weather = field(default_factory=Weather)
    tap: Callable[[], Tap] = OpenTap
    rolls: random.Random = field(default_factory=random.Random)
    resets: int = 0
    connections: set[Connection] = field(default_factory=set)
    passing: dict[Way, asyncio.Event] = field(default_factory=dict)
    server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self.passing = {way: asyncio.Event() for way in Way}
        self.release()
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_exception: object) -> None:
        assert self.server
        self.server.close()
        self.release()
        for connection in tuple(self.connections):
            connection.cut()
        await self.server.wait_closed()

    @property
    def port(self) -> int:
        assert self.server
        return int(self.server.sockets[0].getsockname()[1])

    def hold(self, ways: frozenset[Way]) -> None:
        """Let nothing through any more; not even the end of a connection."""
        for way in ways:
            self.passing[way].clear()

    def release(self) -> None:
        """Let through what was held, and all that comes."""
        for event in self.passing.values():
            event.set()

    def cut_some(self, share: float) -> None:
        """Break some of the connections."""
        for connection in tuple(self.connections):
            if self.rolls.random() < share:
                connection.cut()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream = await asyncio.open_connection("127.0.0.1", self.target())
        except OSError:
            writer.transport.abort()
            return
        connection = Connection(self, (reader, writer), upstream)
        self.connections.add(connection)
        try:
            await connection.run()
        finally:
            self.connections.discard(connection)


Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Late = tuple[float, bytes]


class Connection:
    """One client's connection, and the one to the server that belongs to it."""

    def __init__(self, wire: Wire, client: Ends, server: Ends) -> None:
        self.wire = wire
        self.client = client
        self.server = server
        self.tap = wire.tap()

    async def run(self) -> None:
        """Forward until both sides are done or one of them breaks."""
        ways = {
            Way.TO_SERVER: (self.client[0], self.server[1]),
            Way.TO_CLIENT: (self.server[0], self.client[1]),
        }
        try:
            async with asyncio.TaskGroup() as group:
                for way, (source, sink) in ways.items():
                    waiting: asyncio.Queue[Late] = asyncio.Queue(CHUNKS_HELD_MAX)
                    group.create_task(self.read(way, source, waiting))
                    group.create_task(self.write(way, sink, waiting))
        except* OSError:
            pass
        finally:
            self.cut()

    @property
    def server_side_port(self) -> int:
        """The port at which the server sees this connection."""
        return int(self.server[1].get_extra_info("sockname")[1])

    def cut(self) -> None:
        """Break it, on both sides at once; who reads or writes here notices."""
        for _, writer in (self.client, self.server):
            writer.transport.abort()

    async def read(
        self, way: Way, source: asyncio.StreamReader, waiting: asyncio.Queue[Late]
    ) -> None:
        """Take what comes, with the time at which it is due at the other end."""
        loop, due = asyncio.get_running_loop(), 0.0
        data = b"more to come"
        while data:
            data = await source.read(CHUNK_BYTES_MAX)
            weather = self.wire.weather
            due = max(due, loop.time() + self.wire.rolls.uniform(*weather.delay_seconds))
            await waiting.put((due, data))
            if way is Way.TO_SERVER and self.wire.rolls.random() < weather.reset_share:
                self.wire.resets += 1
                raise ConnectionResetError

    async def write(
        self, way: Way, sink: asyncio.StreamWriter, waiting: asyncio.Queue[Late]
    ) -> None:
        """Hand on what is due; an end of the connection too, in its turn."""
        loop = asyncio.get_running_loop()
        passes = self.tap.sent if way is Way.TO_SERVER else self.tap.answered
        while True:
            due, data = await waiting.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            await self.wire.passing[way].wait()
            if not data:
                with contextlib.suppress(OSError):
                    sink.write_eof()
                return
            if not passes(data):
                raise ConnectionResetError
            sink.write(data)
            await sink.drain()
