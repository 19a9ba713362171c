"""What a connection writes in one turn of the event loop, as one write: each is a system call, and
the head and the body of an answer, or the events of a stream that are known together, come one
right after the other."""

from __future__ import annotations

import asyncio

COALESCED_BYTES_MAX = 64 * 1024


class CoalescedWrites:
    """Stands in for the transport of a connection where answers are written."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.waiting: list[bytes] = []
        self.waiting_bytes = 0

    def write(self, data: bytes) -> None:
        """Write it at the end of this turn, or now if there is much of it."""
        if not self.waiting:
            asyncio.get_running_loop().call_soon(self.flush)
        self.waiting.append(data)
        self.waiting_bytes += len(data)
        if self.waiting_bytes >= COALESCED_BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        """Write what waits. Safe to repeat."""
        if not self.waiting:
            return
        data = b"".join(self.waiting)
        self.waiting, self.waiting_bytes = [], 0
        if not self.transport.is_closing():
            self.transport.write(data)

    def close(self) -> None:
        """Close the connection when everything is written."""
        self.flush()
        self.transport.close()

    def is_closing(self) -> bool:
        """Whether the connection is closed, or about to be."""
        return self.transport.is_closing()
