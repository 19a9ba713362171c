"""The sandbox of containers: each program in one of its own, started ahead, used once."""

from __future__ import annotations

import logging
import os
import sys

from libs.bus.fair_semaphore import FairSemaphore
from services.tools.adapters.base_sandbox import BaseSandbox
from services.tools.adapters.container_engine import Cleanup, ContainerEngine
from services.tools.adapters.container_process import ContainerProcess
from services.tools.adapters.process_sandbox import CONTAINER, VARIABLE
from services.tools.adapters.running_sandbox import NotStarted
from services.tools.adapters.sandbox_pool import IDLE_MAX, IDLE_MIN, SandboxPool
from services.tools.sandbox.confinement import NODE_THAT_TAKES_TYPES, Runtimes
from services.tools.sandbox.ports import Limits, Outcome, Program, Workspace

log = logging.getLogger(__name__)

NO_NETWORK = "none"
PYTHON_MIN = (3, 9)
# Runs in a container, and says what its image has.
PROBE = """
import os, shutil, subprocess, sys
def probe():
    node = shutil.which("node")
    said = ""
    if node:
        said = subprocess.run([node, "--version"], capture_output=True, text=True).stdout
    return [list(sys.version_info[:2]), node, said.strip(), os.path.exists("/bin/sh")]
"""
PROBE_LIMITS = Limits(seconds=60)


class ContainerPool(SandboxPool[ContainerProcess]):
    """The idle containers of one process."""

    def __init__(self, engine: ContainerEngine, *, idle_min: int, idle_max: int) -> None:
        super().__init__(idle_min=idle_min, idle_max=idle_max)
        self.engine = engine
        self.cleanup = Cleanup()

    async def begin_sandbox(self, workspace: Workspace | None, packages: str) -> ContainerProcess:
        """A container that is not started yet."""
        return ContainerProcess(self.engine, self.cleanup, workspace, packages)

    async def close(self) -> None:
        """End all of them, and wait until they are removed."""
        await super().close()
        await self.cleanup.below(1)


class ContainerSandbox(BaseSandbox):
    """Runs programs in containers."""

    pool: ContainerPool | None
    counts_processes = False  # the engine bounds those of a container

    def __init__(
        self,
        image: str,
        network: str = NO_NETWORK,
        *,
        places: FairSemaphore | None = None,
        idle_min: int = IDLE_MIN,
        idle_max: int = IDLE_MAX,
    ) -> None:
        super().__init__(places)
        self.image = image
        self.network = network
        self.idle_min = idle_min
        self.idle_max = idle_max
        self.where = f"in the image {image}"

    @property
    def has_own_users(self) -> bool:
        """Whether the server may give a workspace to another user of the machine."""
        return os.geteuid() == 0

    async def start(self) -> None:
        """Find out whether the engine runs the image; never raises for what is missing."""
        engine = ContainerEngine(self.image, self.network)
        problem = await engine.problem()
        if not problem:
            problem = await self.start_pool(engine)
        if problem:
            self.refusal = (
                f"This server runs no code of tools: {VARIABLE} is {CONTAINER}, but {problem}"
            )
            log.warning("%s", self.refusal)
            return
        network = "no network" if self.network == NO_NETWORK else f"the network {self.network!r}"
        log.info(
            "The code of tools runs by containers of %s, with %s, as nobody, without capabilities;"
            " memory, processes and CPU are bounded by the engine",
            self.image,
            network,
        )

    async def start_pool(self, engine: ContainerEngine) -> str:
        """Start the pool and ask the image for its runtimes; returns what is missing, empty if
        nothing is."""
        pool = ContainerPool(engine, idle_min=self.idle_min, idle_max=self.idle_max)
        self.pool, self.refusal = pool, ""
        try:
            await engine.sweep()
            await pool.start()
            problem = self.learn(
                await self.run(Program("python", PROBE, function="probe", limits=PROBE_LIMITS))
            )
        except (NotStarted, OSError) as failed:
            problem = f"no container could be started: {failed}"
        if problem:
            await pool.close()
            self.pool = None
        return problem

    def learn(self, outcome: Outcome) -> str:
        """Read the image's features; returns the reason why it cannot be used, empty if it can."""
        match outcome.value:
            case [[int(major), int(minor)], str() | None as node, str(said), bool(shell)]:
                pass
            case _:
                return f"a first program failed in {self.image}: {outcome.reason}"
        if (major, minor) < PYTHON_MIN:
            return f"{self.image} has Python {major}.{minor}, and 3.9 is the oldest that will do"
        if (major, minor) != sys.version_info[:2]:
            ours = f"{sys.version_info.major}.{sys.version_info.minor}"
            self.no_packages = (
                f"Tools have no packages here: they are installed for Python {ours}, and the image"
                f" {self.image} has {major}.{minor}"
            )
        typed = version_in(said) >= NODE_THAT_TAKES_TYPES
        self.runtimes = Runtimes(node=node, node_takes_types=typed, shell=shell)
        return ""


def version_in(said: str) -> tuple[int, ...]:
    """The version that a Node says; nothing if it says none."""
    return tuple(int(part) for part in said.removeprefix("v").split(".")[:2] if part.isdigit())
