"""Sandboxes of processes that are started ahead, and the process that starts them."""

from __future__ import annotations

import asyncio
import logging

from libs.telemetry import metrics
from services.tools.adapters.sandbox_pool import IDLE_MAX, IDLE_MIN, SandboxPool
from services.tools.adapters.sandbox_process import SandboxProcess
from services.tools.adapters.sandbox_spawner_client import Spawner, SpawnerFailed
from services.tools.sandbox.confinement import Confinement
from services.tools.sandbox.ports import Workspace

log = logging.getLogger(__name__)

# How often the process that starts sandboxes may be started again within how long.
RESTARTS_MAX = 10
RESTART_SECONDS = 60.0


class ProcessSandboxPool(SandboxPool[SandboxProcess]):
    """The idle sandboxes of one process."""

    def __init__(
        self, confinement: Confinement, *, idle_min: int = IDLE_MIN, idle_max: int = IDLE_MAX
    ) -> None:
        super().__init__(idle_min=idle_min, idle_max=idle_max)
        self.confinement = confinement
        self.spawner: Spawner | None = None
        self.loop = asyncio.get_running_loop()
        self.lock = asyncio.Lock()
        self.starts: list[float] = []
        self.locked = False  # by Landlock; known after the start

    async def begin_sandbox(self, workspace: Workspace | None, packages: str) -> SandboxProcess:
        """A process whose confinement is being set up."""
        return SandboxProcess(await self.living_spawner(), workspace, packages)

    async def start(self) -> SandboxProcess:
        """Begin, and see whether Landlock is here."""
        first = await super().start()
        self.locked = first.locked
        return first

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

    async def close(self) -> None:
        await super().close()
        if self.spawner is not None:
            await self.spawner.close()
