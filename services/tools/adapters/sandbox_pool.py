"""Sandboxes that are started ahead and wait for a program; each is used once."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from contextlib import suppress

from services.tools.adapters.running_sandbox import NotStarted, RunningSandbox
from services.tools.sandbox.ports import Workspace

log = logging.getLogger(__name__)

# Of one process: so many wait at least, and as many as are in use, up to the other bound.
IDLE_MIN = 2
IDLE_MAX = 10
# Starts that are under way at once: more would only slow each other down.
STARTING_MAX = 2
IDLE_SECONDS_MAX = 30.0
# After a start that failed, and each time twice as long, up to the other.
FAILED_SECONDS = 1.0
FAILED_SECONDS_MAX = 30.0


class SandboxPool[S: RunningSandbox](ABC):
    """The idle sandboxes of one process, whatever they are made of."""

    def __init__(self, *, idle_min: int = IDLE_MIN, idle_max: int = IDLE_MAX) -> None:
        self.idle_min = idle_min
        self.idle_max = idle_max
        self.idle: list[S] = []
        self.used: set[S] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.starting = 0
        self.failed_seconds = FAILED_SECONDS
        self.closed = False

    async def start(self) -> S:
        """Begin; returns the first one, which may be closed already. Raises NotStarted where the
        machine does not grant such sandboxes."""
        first = await self.cold()
        self.used.discard(first)
        if self.idle_max > 0:
            self.idle.append(first)
        else:
            await self.end(first)
        self.balance()
        return first

    async def take(self, packages: str = "") -> S:
        """A sandbox that nobody used before; warm if one is left. One with packages is cold."""
        if packages:
            return await self.cold(packages=packages)
        self.forget_the_dead()
        if self.idle:
            sandbox = self.idle.pop(0)
            self.used.add(sandbox)
        else:
            sandbox = await self.cold()
        self.balance()
        return sandbox

    async def cold(self, workspace: Workspace | None = None, packages: str = "") -> S:
        """A sandbox that is started now; raises NotStarted or OSError."""
        sandbox = await self.begin_sandbox(workspace, packages)
        self.used.add(sandbox)
        try:
            await sandbox.ready()
        except BaseException:
            self.used.discard(sandbox)
            with suppress(TimeoutError):
                await asyncio.shield(sandbox.close())
            raise
        return sandbox

    @abstractmethod
    async def begin_sandbox(self, workspace: Workspace | None, packages: str) -> S:
        """A sandbox that is not ready yet; raises NotStarted or OSError."""

    def forget_the_dead(self) -> None:
        """Idle sandboxes that ended by themselves are not handed out."""
        dead = [sandbox for sandbox in self.idle if sandbox.died]
        for sandbox in dead:
            self.idle.remove(sandbox)
            self.begin(self.end(sandbox))

    async def give_back(self, sandbox: S) -> None:
        """A sandbox has been closed."""
        self.used.discard(sandbox)
        self.balance()

    def balance(self) -> None:
        """Start what is missing; end what is too much after a while."""
        wanted = min(self.idle_max, max(self.idle_min, len(self.used)))
        while (
            not self.closed
            and len(self.idle) + self.starting < wanted
            and self.starting < STARTING_MAX
        ):
            self.starting += 1
            self.begin(self.start_one())
        if len(self.idle) > wanted and not self.closed:
            asyncio.get_running_loop().call_later(IDLE_SECONDS_MAX, self.end_surplus)

    def end_surplus(self) -> None:
        """End idle sandboxes that nobody has needed for a while."""
        wanted = min(self.idle_max, max(self.idle_min, len(self.used)))
        while len(self.idle) > wanted:
            self.begin(self.end(self.idle.pop()))

    async def start_one(self) -> None:
        """One more that waits. A process edge: what goes wrong here is logged, and tried again."""
        try:
            sandbox = await self.cold()
        except (NotStarted, OSError):
            log.warning("A sandbox could not be started ahead", exc_info=True)
            await asyncio.sleep(self.failed_seconds)
            self.failed_seconds = min(FAILED_SECONDS_MAX, 2 * self.failed_seconds)
        else:
            self.failed_seconds = FAILED_SECONDS
            self.used.discard(sandbox)
            self.idle.append(sandbox)
        finally:
            self.starting -= 1
        self.balance()

    async def end(self, sandbox: S) -> None:
        """End a sandbox that nobody uses."""
        with suppress(TimeoutError):
            await sandbox.close()

    def begin(self, work: object) -> None:
        """Do something beside what is asked for."""
        assert asyncio.iscoroutine(work)
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def close(self) -> None:
        """End all of them, and wait."""
        self.closed = True
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        ended = [self.end(sandbox) for sandbox in [*self.idle, *self.used]]
        self.idle.clear()
        await asyncio.gather(*ended)
