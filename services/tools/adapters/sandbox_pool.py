"""Sandboxes that are started ahead and wait for a program; each is used once."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from libs.telemetry import metrics
from services.tools.adapters.sandbox_process import SandboxProcess
from services.tools.adapters.sandbox_spawner import Spawner, SpawnerFailed
from services.tools.sandbox.confinement import Confinement
from services.tools.sandbox.ports import Workspace

log = logging.getLogger(__name__)

# Of one process: so many wait at least, and as many as are in use, up to the other bound.
IDLE_MIN = 2
IDLE_MAX = 10
# Starts that are under way at once: more would only slow each other down.
STARTING_MAX = 2
IDLE_SECONDS_MAX = 30.0
FAILED_SECONDS = 1.0
# How often the process that starts sandboxes may be started again within how long.
RESTARTS_MAX = 10
RESTART_SECONDS = 60.0


class SandboxPool:
    """The idle sandboxes of one process."""

    def __init__(
        self, confinement: Confinement, *, idle_min: int = IDLE_MIN, idle_max: int = IDLE_MAX
    ) -> None:
        self.confinement = confinement
        self.idle_min = idle_min
        self.idle_max = idle_max
        self.idle: list[SandboxProcess] = []
        self.used: set[SandboxProcess] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.starting = 0
        self.spawner: Spawner | None = None
        self.loop = asyncio.get_running_loop()
        self.lock = asyncio.Lock()
        self.starts: list[float] = []
        self.closed = False
        self.locked = False  # by Landlock; known after the start

    async def start(self) -> None:
        """Begin; raises SpawnerFailed where the machine does not grant this confinement."""
        first = await self.cold()
        self.locked = first.locked
        self.used.discard(first)
        if self.idle_max > 0:
            self.idle.append(first)
        else:
            await self.end(first)
        self.balance()

    async def take(self, packages: str = "") -> SandboxProcess:
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

    async def cold(self, workspace: Workspace | None = None, packages: str = "") -> SandboxProcess:
        """A sandbox that is started now."""
        sandbox = SandboxProcess(await self.living_spawner(), workspace, packages)
        self.used.add(sandbox)
        try:
            await sandbox.ready()
        except BaseException:
            self.used.discard(sandbox)
            with suppress(TimeoutError):
                await asyncio.shield(sandbox.close())
            raise
        return sandbox

    async def living_spawner(self) -> Spawner:
        """The process that starts sandboxes; another one if it has ended."""
        async with self.lock:
            if self.spawner is None or not self.spawner.alive:
                self.count_start()
                if self.spawner is not None:
                    metrics.SANDBOX_RESTARTS.inc()
                    log.warning("The process that starts sandboxes has ended: another one starts")
                    await self.spawner.close()
                self.spawner = Spawner(self.confinement)
                try:
                    await self.spawner.start()
                except BaseException:
                    await asyncio.shield(self.spawner.close())
                    raise
            return self.spawner

    def count_start(self) -> None:
        """One more start of the process that starts sandboxes; raises SpawnerFailed where it has
        ended so often that another one would end, too."""
        now = self.loop.time()
        self.starts = [at for at in self.starts if at > now - RESTART_SECONDS]
        if len(self.starts) > RESTARTS_MAX:
            raise SpawnerFailed(
                f"the process that starts sandboxes ended {RESTARTS_MAX} times in"
                f" {RESTART_SECONDS:g} seconds: it is started again in a minute"
            )
        self.starts.append(now)

    def forget_the_dead(self) -> None:
        """Idle sandboxes that ended by themselves are not handed out."""
        dead = [sandbox for sandbox in self.idle if sandbox.died]
        for sandbox in dead:
            self.idle.remove(sandbox)
            self.begin(self.end(sandbox))

    async def give_back(self, sandbox: SandboxProcess) -> None:
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
        except (SpawnerFailed, OSError):
            log.warning("A sandbox could not be started ahead", exc_info=True)
            await asyncio.sleep(FAILED_SECONDS)
        else:
            self.used.discard(sandbox)
            self.idle.append(sandbox)
        finally:
            self.starting -= 1
        self.balance()

    async def end(self, sandbox: SandboxProcess) -> None:
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
        if self.spawner is not None:
            await self.spawner.close()
