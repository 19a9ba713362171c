"""The only way out that an installer of packages has: to the hosts of the index, and no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

HEAD_BYTES_MAX = 8_192
HEAD_SECONDS_MAX = 10.0
CONNECT_SECONDS_MAX = 15.0
PIECE_BYTES = 1 << 16
PASSED_BYTES_MAX = 2 << 30
HTTPS = 443


class PackageProxy:
    """Tunnels to port 443 of these hosts, which the operator has named, wherever they are: no
    client can name one."""

    def __init__(self, hosts: frozenset[str]) -> None:
        self.hosts = hosts
        self.refused: set[str] = set()
        self.passed_bytes = 0
        self.tunnels: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        """Its address, as long as an installation lasts."""
        server = await asyncio.start_server(self.tunnel, "127.0.0.1", 0, limit=HEAD_BYTES_MAX)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
            for tunnel in list(self.tunnels):
                tunnel.cancel()

    async def tunnel(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection. A process edge of its own: whatever fails ends the connection."""
        task = asyncio.current_task()
        assert task is not None
        self.tunnels.add(task)
        try:
            async with asyncio.timeout(HEAD_SECONDS_MAX):
                head = await reader.readuntil(b"\r\n\r\n")
            there = await self.open_connection(head)
            if there is None:
                writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
                await writer.drain()
                return
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            to_reader, to_writer = there
            await asyncio.gather(self.pass_on(reader, to_writer), self.pass_on(to_reader, writer))
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return
        finally:
            self.tunnels.discard(task)
            writer.close()

    async def open_connection(
        self, head: bytes
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """A connection to the host of a CONNECT request; None if that host or port is not
        allowed."""
        method, _, rest = head.partition(b" ")
        host, _, port = rest.partition(b" ")[0].decode("ascii", "replace").rpartition(":")
        if method != b"CONNECT" or host.lower() not in self.hosts or port != str(HTTPS):
            self.refused.add(host[:200])
            return None
        async with asyncio.timeout(CONNECT_SECONDS_MAX):
            return await asyncio.open_connection(host, HTTPS)

    async def pass_on(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        """Pass the bytes of one side on, up to a bound."""
        try:
            while piece := await source.read(PIECE_BYTES):
                self.passed_bytes += len(piece)
                if self.passed_bytes > PASSED_BYTES_MAX:
                    return
                target.write(piece)
                await target.drain()
        finally:
            with suppress(OSError):
                target.close()
