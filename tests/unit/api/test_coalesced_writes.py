"""What is written in one turn of the event loop is one write, in order, and none of it is lost."""

from __future__ import annotations

import asyncio
from typing import Any

from services.api.http.http_protocol import COALESCED_BYTES_MAX, CoalescedWrites


class Transport:
    """Remembers what was written to it."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.written.append(data)

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


def joined() -> tuple[Transport, CoalescedWrites]:
    transport: Any = Transport()
    return transport, CoalescedWrites(transport)


async def test_what_is_written_in_one_turn_is_one_write() -> None:
    transport, writes = joined()
    writes.write(b"head ")
    writes.write(b"body")
    assert transport.written == []
    await asyncio.sleep(0)
    writes.write(b" next")
    await asyncio.sleep(0)
    assert transport.written == [b"head body", b" next"]


async def test_what_is_known_to_be_the_last_is_written_at_once() -> None:
    transport, writes = joined()
    writes.write(b"answer")
    writes.flush()
    await asyncio.sleep(0)
    assert transport.written == [b"answer"]


async def test_much_does_not_wait() -> None:
    transport, writes = joined()
    writes.write(b"x" * (COALESCED_BYTES_MAX - 1))
    assert not transport.written
    writes.write(b"y")
    assert len(transport.written) == 1


async def test_a_connection_is_closed_when_all_is_written() -> None:
    transport, writes = joined()
    writes.write(b"goodbye")
    writes.close()
    assert (transport.written, writes.is_closing()) == ([b"goodbye"], True)


async def test_nothing_is_written_to_a_connection_that_is_gone() -> None:
    transport, writes = joined()
    writes.write(b"too late")
    transport.close()
    await asyncio.sleep(0)
    assert transport.written == []
