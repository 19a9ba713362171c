"""TOOL-18: sessions are opened when they are needed, shared, and make room for others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from services.tools.adapters.mcp import session_pool
from services.tools.adapters.mcp.ports import McpFailed, McpServerConfig
from services.tools.adapters.mcp.session_pool import SESSIONS_MAX, SessionPool
from tests.waiting import wait_for


class Session:
    """What the pool needs of a session, which is as it is set."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.requests = 0
        self.used_at = 0.0
        self.living = True
        self.closed = False
        self.answers = True

    async def ping(self, seconds: float) -> None:
        if not self.answers:
            raise McpFailed("timeout", "silent")

    async def close(self) -> None:
        self.closed = True


class Servers:
    """Connects as it is bid."""

    def __init__(self) -> None:
        self.sessions: list[Session] = []
        self.failures: list[McpFailed] = []
        self.gate: asyncio.Event | None = None

    async def connect(self, config: McpServerConfig, seconds: float) -> Session:
        if self.gate is not None:
            await self.gate.wait()
        if self.failures:
            raise self.failures.pop(0)
        self.sessions.append(Session(config.version))
        return self.sessions[-1]


def server(name: str = "one", version: int = 1) -> McpServerConfig:
    return McpServerConfig(
        id=name, org="org", name=name, transport="sse", version=version, url="http://example.com/"
    )


@pytest.fixture
def servers() -> Servers:
    return Servers()


@pytest.fixture
async def pool(servers: Servers) -> SessionPool:
    return SessionPool(servers.connect)


async def test_a_session_is_opened_once_also_for_those_who_come_at_once(
    servers: Servers, pool: SessionPool
) -> None:
    found = await asyncio.gather(*[pool.session(server(), 5) for _ in range(10)])
    assert len(servers.sessions) == 1
    assert {id(session) for session in found} == {id(servers.sessions[0])}
    assert await pool.session(server(), 5) is servers.sessions[0]


async def test_who_gives_up_takes_it_from_nobody(servers: Servers, pool: SessionPool) -> None:
    servers.gate = asyncio.Event()
    first = asyncio.create_task(pool.session(server(), 5))
    second = asyncio.create_task(pool.session(server(), 5))
    await asyncio.sleep(0)
    first.cancel()
    servers.gate.set()
    assert await second is servers.sessions[0]


async def test_a_slow_server_keeps_no_other_waiting(servers: Servers, pool: SessionPool) -> None:
    servers.gate = asyncio.Event()
    slow = asyncio.create_task(pool.session(server("slow"), 60))
    await asyncio.sleep(0)
    with pytest.raises(McpFailed, match="did not say hello"):
        await pool.session(server("slow"), 0.01)
    servers.gate, gate = None, servers.gate
    assert (await pool.session(server("other"), 5)).version == 1
    assert not slow.done()
    gate.set()
    await slow


async def test_a_newer_configuration_ends_the_session_of_the_older(
    servers: Servers, pool: SessionPool
) -> None:
    old = await pool.session(server(version=1), 5)
    new = await pool.session(server(version=2), 5)
    await pool.close()
    assert (old.closed, new.version) == (True, 2)


@pytest.mark.parametrize(
    "dies",
    [
        lambda session: setattr(session, "living", False),
        lambda session: setattr(session, "answers", False),
    ],
)
async def test_a_session_that_died_or_is_silent_is_not_handed_out(
    servers: Servers, pool: SessionPool, dies: Callable[[Session], None]
) -> None:
    first = await pool.session(server(), 5)
    dies(first)
    first.used_at -= 100
    second = await pool.session(server(), 5)
    assert second is not first
    await pool.close()
    assert first.closed


@pytest.mark.parametrize(("failures", "connected"), [(2, True), (3, False)])
async def test_who_cannot_be_reached_is_tried_again_a_few_times(
    servers: Servers,
    pool: SessionPool,
    monkeypatch: pytest.MonkeyPatch,
    failures: int,
    connected: bool,
) -> None:
    monkeypatch.setattr(session_pool, "PAUSE_SECONDS", (0.001, 0.001))
    servers.failures = [McpFailed("unreachable", "away")] * failures
    opening = pool.session(server(), 5)
    if connected:
        assert await opening is servers.sessions[0]
    else:
        with pytest.raises(McpFailed, match="away"):
            await opening


async def test_who_gives_up_between_two_attempts_is_told_why_the_first_failed(
    servers: Servers, pool: SessionPool
) -> None:
    servers.failures = [McpFailed("unreachable", "it crashed")]
    opening = asyncio.create_task(pool.session(server(), 60))
    await wait_for("the failure", lambda: pool.reasons)
    with pytest.raises(McpFailed, match="it crashed"):
        await pool.session(server(), 0.01)
    assert await opening is servers.sessions[0]
    assert pool.reasons == {}


async def test_what_would_be_so_again_is_not_tried_again(
    servers: Servers, pool: SessionPool
) -> None:
    servers.failures = [McpFailed("unauthorized", "who are you")]
    with pytest.raises(McpFailed, match="who are you"):
        await pool.session(server(), 5)
    assert servers.sessions == []


async def test_the_one_that_was_not_used_for_longest_makes_room(
    servers: Servers, pool: SessionPool
) -> None:
    first = await pool.session(server("0"), 5)
    first.requests = 1
    second = await pool.session(server("1"), 5)
    third = await pool.session(server("2"), 5)
    for number in range(3, SESSIONS_MAX):
        await pool.session(server(str(number)), 5)
    await pool.session(server("1"), 5)
    await pool.session(server("more"), 5)
    assert len(pool.sessions) == SESSIONS_MAX
    await asyncio.gather(*pool.asides)
    assert (first.closed, second.closed, third.closed) == (False, False, True)


async def test_a_session_that_nobody_uses_ends_by_itself(
    servers: Servers, pool: SessionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_pool, "SWEEP_SECONDS", 0.001)
    idle, busy = await pool.session(server("idle"), 5), await pool.session(server("busy"), 5)
    idle.used_at -= 10_000
    busy.used_at -= 10_000
    busy.requests = 1
    await wait_for("its end", lambda: idle.closed)
    assert not busy.closed
    assert list(pool.sessions) == ["busy"]


@pytest.mark.parametrize("opened", [True, False])
async def test_a_server_that_is_forgotten_has_no_session_and_gets_none(
    servers: Servers, pool: SessionPool, opened: bool
) -> None:
    asked: Awaitable[Session]
    if opened:
        asked = asyncio.ensure_future(pool.session(server(), 5))
        await asked
    else:
        servers.gate = asyncio.Event()
        asked = asyncio.ensure_future(pool.session(server(), 5))
        await asyncio.sleep(0)
    await pool.forget("one")
    assert pool.sessions == {}
    if opened:
        assert servers.sessions[0].closed
    else:
        with pytest.raises(McpFailed, match="changed or deleted"):
            await asked
    await pool.forget("one")


async def test_a_closed_pool_opens_nothing(servers: Servers, pool: SessionPool) -> None:
    one = await pool.session(server(), 5)
    await pool.close()
    assert one.closed
    with pytest.raises(McpFailed, match="being stopped"):
        await pool.session(server(), 5)
