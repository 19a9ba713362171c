"""The sessions of one process: opened when they are needed, shared, and ended when nobody has used
them for a while or others need the room."""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from libs.telemetry import metrics
from services.tools.adapters.mcp.ports import McpFailed, McpServerConfig

if TYPE_CHECKING:
    from services.tools.adapters.mcp.session import McpSession  # slow to import

# One is always idle where fewer requests than this are under way.
SESSIONS_MAX = 160
# A process that nobody uses costs memory; a session over HTTP costs a socket.
IDLE_SECONDS_MAX = {"stdio": 120.0, "sse": 300.0, "streamable_http": 600.0}
SWEEP_SECONDS = 5.0
# Who was silent for so long is asked whether it is still there, before it is sent a call.
TRUSTED_SECONDS = 15.0
PING_SECONDS_MAX = 3.0
# Between attempts to connect; each is a little longer or shorter, so that not all come at once.
PAUSE_SECONDS = (0.2, 1.0)
# Who could not be reached may be in a moment; what is wrong otherwise stays so.
WORTH_ANOTHER_ATTEMPT = ("unreachable",)


class SessionPool:
    """Sessions by their id, which is that of their server or begins with it; `connect` opens one
    within so many seconds, or raises McpFailed."""

    def __init__(
        self, connect: Callable[[McpServerConfig, float], Coroutine[Any, Any, McpSession]]
    ) -> None:
        self.connect = connect
        self.loop = asyncio.get_running_loop()
        self.sessions: OrderedDict[str, McpSession] = OrderedDict()
        self.kinds: dict[str, str] = {}
        self.opening: dict[tuple[str, int], asyncio.Task[McpSession]] = {}
        # Why an attempt before the one that goes on has failed: who gives up is told that.
        self.reasons: dict[tuple[str, int], McpFailed] = {}
        self.asides: set[asyncio.Task[Any]] = set()
        self.sweeping: asyncio.Task[None] | None = None
        self.closed = False

    async def session(self, config: McpServerConfig, seconds: float) -> McpSession:
        """A session that can be asked now. Raises McpFailed after so many seconds at the latest."""
        if self.closed:
            raise McpFailed("unreachable", "this process is being stopped")
        session_id = config.session_id
        held = self.sessions.get(session_id)
        if held is not None and held.version >= config.version and await self.is_trusted(held):
            return self.touch(config, held)
        if held is not None and self.sessions.get(session_id) is held:
            self.drop(session_id)
        key = (session_id, config.version)
        opening = self.opening.get(key)
        if opening is None:
            opening = self.opening[key] = asyncio.create_task(self.open(config, seconds))
            opening.add_done_callback(lambda task: self.forget_attempt(key, task))
        done, _ = await asyncio.wait({opening}, timeout=seconds)
        if not done:
            late = McpFailed("timeout", f"it did not say hello within {seconds:.3g} seconds")
            raise self.reasons.get(key, late)
        if opening.cancelled():
            raise McpFailed("unreachable", "it was changed or deleted meanwhile")
        return self.touch(config, opening.result())

    async def is_trusted(self, held: McpSession) -> bool:
        """Whether a session can be asked. One that was idle is pinged first."""
        if not held.living:
            return False
        if held.requests or self.loop.time() - held.used_at < TRUSTED_SECONDS:
            return True
        try:
            await held.ping(PING_SECONDS_MAX)
        except McpFailed:
            return False
        return held.living

    def touch(self, config: McpServerConfig, session: McpSession) -> McpSession:
        """The same session, marked as the last used."""
        session.used_at = self.loop.time()
        if self.sessions.get(config.session_id) is session:
            self.sessions.move_to_end(config.session_id)
        return session

    async def open(self, config: McpServerConfig, seconds: float) -> McpSession:
        """Another session; it is kept if it is still wanted. Raises McpFailed."""
        until = self.loop.time() + seconds
        for pause in (*PAUSE_SECONDS, None):
            left = until - self.loop.time()
            try:
                session = await self.connect(config, max(left, 0.01))
            except McpFailed as failure:
                left = until - self.loop.time()
                if failure.kind not in WORTH_ANOTHER_ATTEMPT or pause is None or left < pause * 2:
                    raise
                self.reasons[config.session_id, config.version] = failure
                await asyncio.sleep(pause * random.uniform(0.75, 1.25))
                continue
            self.keep(config, session)
            return session
        raise AssertionError("the last attempt returns or raises")

    def keep(self, config: McpServerConfig, session: McpSession) -> None:
        """Hold a session open for others, too."""
        self.drop(config.session_id)
        while len(self.sessions) >= SESSIONS_MAX:
            idle = next((key for key, held in self.sessions.items() if not held.requests), None)
            if idle is None:
                break
            self.drop(idle)
        session.used_at = self.loop.time()
        self.sessions[config.session_id] = session
        self.kinds[config.session_id] = config.transport
        metrics.MCP_SESSIONS.set(len(self.sessions))
        if self.sweeping is None or self.sweeping.done():
            self.sweeping = asyncio.create_task(self.sweep())

    def forget_attempt(self, key: tuple[str, int], task: asyncio.Task[McpSession]) -> None:
        """Remove an ended attempt to connect, and read its exception."""
        if self.opening.get(key) is task:
            del self.opening[key]
            self.reasons.pop(key, None)
        if not task.cancelled():
            task.exception()

    def drop(self, session_id: str) -> None:
        """Use a session no more, and end it aside."""
        session = self.taken_out(session_id)
        if session is not None:
            self.aside(session.close())

    def taken_out(self, session_id: str) -> McpSession | None:
        """A session that is used no more, and is to be closed."""
        session = self.sessions.pop(session_id, None)
        self.kinds.pop(session_id, None)
        metrics.MCP_SESSIONS.set(len(self.sessions))
        return session

    def aside(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do something that nobody waits for."""
        task = asyncio.create_task(work)
        self.asides.add(task)
        task.add_done_callback(self.asides.discard)

    async def sweep(self) -> None:
        """End what nobody uses, as long as there is anything."""
        while self.sessions:
            await asyncio.sleep(SWEEP_SECONDS)
            now = self.loop.time()
            for session_id, session in list(self.sessions.items()):
                idle = not session.requests and (
                    now - session.used_at > IDLE_SECONDS_MAX[self.kinds[session_id]]
                )
                if idle or not session.living:
                    self.drop(session_id)

    async def forget(self, config_id: str) -> None:
        """End the sessions with a server, and what is on its way to become one."""
        opening = [task for key, task in self.opening.items() if is_of(key[0], config_id)]
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        of_it = [session_id for session_id in self.sessions if is_of(session_id, config_id)]
        ending = [self.taken_out(session_id) for session_id in of_it]
        await asyncio.gather(*(session.close() for session in ending if session is not None))

    async def close(self) -> None:
        """End all sessions of the pool."""
        self.closed = True
        if self.sweeping is not None:
            self.sweeping.cancel()
        for session_id in {*self.sessions, *(key[0] for key in self.opening)}:
            self.aside(self.forget(session_id))
        await asyncio.gather(*self.asides, return_exceptions=True)


def is_of(session_id: str, config_id: str) -> bool:
    """Whether a session is one with a server."""
    return session_id == config_id or session_id.startswith(f"{config_id}/")
