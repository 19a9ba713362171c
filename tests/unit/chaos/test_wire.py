"""The wires do to a connection what they are told, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.chaos.commits import CommitTap, Cuts
from tests.chaos.wire import BOTH, Way, Weather, Wire
from tests.waiting import wait_for

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def echo() -> AsyncIterator[Wire]:
    """A wire to a server that says everything back."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, Wire(lambda: port) as wire:
        yield wire


async def call(wire: Wire) -> Ends:
    return await asyncio.open_connection("127.0.0.1", wire.port)


async def test_a_wire_passes_on_what_is_sent_and_that_it_ended() -> None:
    async with echo() as wire:
        reader, writer = await call(wire)
        writer.write(b"hello" * 50_000)
        writer.write_eof()

        assert await reader.read(-1) == b"hello" * 50_000


@pytest.mark.parametrize("ways", [BOTH, {Way.TO_SERVER}, {Way.TO_CLIENT}])
async def test_what_is_held_arrives_later_in_order(ways: frozenset[Way]) -> None:
    async with echo() as wire:
        reader, writer = await call(wire)
        wire.hold(frozenset(ways))
        writer.write(b"one ")
        await writer.drain()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.2)
        writer.write(b"two")
        writer.write_eof()
        wire.release()

        assert await reader.read(-1) == b"one two"


async def test_a_slow_wire_delays_and_keeps_the_order() -> None:
    async with echo() as wire:
        wire.weather = Weather(delay_seconds=(0.05, 0.15))
        reader, writer = await call(wire)
        began = asyncio.get_running_loop().time()
        for number in range(10):
            writer.write(b"%d" % number)
            await writer.drain()
        writer.write_eof()

        assert await reader.read(-1) == b"0123456789"
        assert asyncio.get_running_loop().time() - began >= 0.1


async def test_a_lossy_wire_breaks_connections() -> None:
    async with echo() as wire:
        wire.weather = Weather(reset_share=1.0)
        reader, writer = await call(wire)
        writer.write(b"hello")

        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(5)
        assert wire.resets == 1
        await wait_for("the connection is gone", lambda: not wire.connections)


async def test_a_server_that_is_away_is_a_broken_connection() -> None:
    async with Wire(lambda: 1) as wire:
        reader, _ = await call(wire)

        assert await read_or_broken(reader) == b""


async def read_or_broken(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(1)
    except ConnectionError:
        return b""


def message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + (len(body) + 4).to_bytes(4) + body


STARTUP = (16).to_bytes(4) + (196608).to_bytes(4) + b"user\0\0\0\0"
TLS_FIRST = (8).to_bytes(4) + (80877103).to_bytes(4)
PREPARE = message(b"P", b"s1\0with gate as (select 1) ...\0\0\0")
PREPARE_READ = message(b"P", b"s2\0select 1\0\0\0")
RUN = message(b"B", b"\0s1\0\0\0") + message(b"E", b"\0\0\0\0\0") + message(b"S")
RUN_READ = message(b"B", b"\0s2\0\0\0") + message(b"E", b"\0\0\0\0\0") + message(b"S")
DONE = message(b"C", b"SELECT 1\0") + message(b"Z", b"I")
REFUSED = message(b"E", b"C23505\0\0") + message(b"Z", b"I")


def tap(**cuts: float) -> CommitTap:
    made = CommitTap(Cuts(share=1.0, left=1, **cuts))  # type: ignore[arg-type]
    assert made.sent(TLS_FIRST)
    assert made.sent(STARTUP)
    assert made.answered(b"N")
    return made


def test_the_answer_to_a_commit_is_cut_when_it_is_complete() -> None:
    session = tap()

    assert session.sent(PREPARE + message(b"S"))
    assert session.answered(message(b"1") + message(b"Z", b"I"))
    assert session.sent(RUN[:9])
    assert session.sent(RUN[9:])
    assert session.answered(DONE[:6])
    assert not session.answered(DONE[6:])
    assert (session.cuts.lost_after, session.cuts.left) == (1, 0)


def test_the_answer_to_a_read_passes() -> None:
    session = tap()

    assert session.sent(PREPARE + PREPARE_READ + RUN_READ)
    assert session.answered(DONE)
    assert session.cuts.left == 1


def test_a_refusal_is_cut_too_but_does_not_count() -> None:
    session = tap()

    assert session.sent(PREPARE + RUN)
    assert not session.answered(REFUSED)
    assert (session.cuts.lost_after, session.cuts.left) == (0, 1)


def test_a_commit_may_be_lost_before_the_server_sees_it() -> None:
    session = tap(before_share=1.0)

    assert not session.sent(PREPARE + RUN)
    assert (session.cuts.lost_before, session.cuts.left) == (1, 1)
