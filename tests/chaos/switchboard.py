"""Wires for every process of every service, and what befalls them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Self

from tests.chaos.commits import CommitTap, Cuts
from tests.chaos.wire import Way, Weather, Wire

SERVERS = ("postgres", "nats")
BROKEN_SHARE = 0.5  # of the connections that do not outlive a partition

Port = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Plugged:
    """A wire, and what it connects."""

    service: str
    pid: int
    server: str
    wire: Wire


class Switchboard:
    """Gives each process that asks a wire to each server. `port_of` says where a server is."""

    def __init__(self, port_of: Port, rolls: random.Random) -> None:
        self.port_of = port_of
        self.rolls = rolls
        self.plugged: list[Plugged] = []
        self.weather = Weather()
        self.cuts = Cuts(rolls=rolls)
        self.open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self.server = await asyncio.start_server(self.plug_in, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_exception: object) -> None:
        self.server.close()
        await self.open.aclose()
        await self.server.wait_closed()

    @property
    def port(self) -> int:
        return int(self.server.sockets[0].getsockname()[1])

    async def plug_in(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A process asks for its wires: `agent 4711` is answered by `postgres=1 nats=2`."""
        service, pid = (await reader.readline()).split()
        ports = []
        for server in SERVERS:
            wire = await self.open.enter_async_context(self.wire_to(server))
            self.plugged.append(Plugged(service.decode(), int(pid), server, wire))
            ports.append(f"{server}={wire.port}")
        writer.write(f"{' '.join(ports)}\n".encode())
        await writer.drain()
        writer.close()

    def wire_to(self, server: str) -> Wire:
        wire = Wire(lambda: self.port_of(server), weather=self.weather, rolls=self.rolls)
        if server == "postgres":
            wire.tap = lambda: CommitTap(self.cuts)
        return wire

    def wires(self, server: str, *pids: int) -> list[Wire]:
        """The wires of these processes to a server."""
        return [
            process.wire
            for process in self.plugged
            if process.server == server and process.pid in pids
        ]

    def pids_by_port(self, server: str) -> dict[int, int]:
        """Which process this server means when it names the port of a client. A client's port at
        the other server may have the same number."""
        return {
            connection.server_side_port: process.pid
            for process in self.plugged
            if process.server == server
            for connection in process.wire.connections
        }

    @asynccontextmanager
    async def partition(
        self, server: str, pids: list[int], ways: frozenset[Way]
    ) -> AsyncIterator[None]:
        """These processes and the server do not hear each other, or one does not hear the other.
        In the end half of the connections break; on the others all arrives that was held."""
        wires = self.wires(server, *pids)
        assert len(wires) == len(pids), f"{pids} have {len(wires)} wires to {server}"
        for wire in wires:
            wire.hold(ways)
        try:
            yield
        finally:
            for wire in wires:
                wire.cut_some(BROKEN_SHARE)
                wire.release()

    @contextmanager
    def bad_weather(self, weather: Weather) -> Iterator[None]:
        """All wires are slow, or break now and then."""
        clear = Weather()
        self.set_weather(weather)
        try:
            yield
        finally:
            self.set_weather(clear)

    def set_weather(self, weather: Weather) -> None:
        """For the wires that there are, and for those to come."""
        self.weather = weather
        for plug in self.plugged:
            plug.wire.weather = weather

    @property
    def resets(self) -> int:
        return sum(plug.wire.resets for plug in self.plugged)
