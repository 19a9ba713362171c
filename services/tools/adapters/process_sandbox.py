"""The sandbox of processes: each program in namespaces of its own, started ahead, used once."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import tempfile
from contextlib import suppress

from libs.bus.fair_semaphore import FairSemaphore
from services.tools.adapters.base_sandbox import BaseSandbox
from services.tools.adapters.folder_removal import remove_folder
from services.tools.adapters.process_sandbox_pool import ProcessSandboxPool
from services.tools.adapters.sandbox_pool import IDLE_MAX, IDLE_MIN
from services.tools.adapters.sandbox_spawner_client import SpawnerFailed
from services.tools.sandbox.confinement import (
    Confinement,
    bubblewrap,
    confinements,
    runtimes,
    unconfined_modes,
)

log = logging.getLogger(__name__)

VARIABLE = "HEELER_SANDBOX"
CONFINED, UNCONFINED, OFF = "process", "process-unconfined", "off"
CONTAINER = "container"  # chosen by the wiring, which makes another sandbox then
# Without it nobody could watch what the processes of a sandbox use together.
LISTED_CHILDREN = "/proc/thread-self/children"
NO_WORKSPACES = f"Workspaces of agents need namespaces, which {VARIABLE}={UNCONFINED} does without"
HOW_TO_WEAKEN = (
    f"Whoever runs the server may allow the weaker mode by {VARIABLE}={UNCONFINED}: there the code"
    " of tools has limits and an empty environment, but the network of the server, and where the"
    " kernel has no Landlock its files"
)


class ProcessSandbox(BaseSandbox):
    """Runs programs in processes."""

    pool: ProcessSandboxPool | None

    def __init__(
        self,
        mode: str = CONFINED,
        *,
        workspaces: str = "",
        packages: str = "",
        places: FairSemaphore | None = None,
        idle_min: int = IDLE_MIN,
        idle_max: int = IDLE_MAX,
    ) -> None:
        super().__init__(places)
        self.idle_min = idle_min
        self.idle_max = idle_max
        self.mode = mode
        self.workspaces = workspaces
        self.packages = packages
        self.runtimes = runtimes()
        self.folder: str | None = None

    async def start(self) -> None:
        """Find out what the machine grants; say so in the log; never raises for what it lacks."""
        tried: list[str] = []
        try:
            candidates = self.candidates(tried)
        except OSError as failed:
            candidates = []
            tried.append(str(failed))
        for confinement in candidates:
            pool = ProcessSandboxPool(confinement, idle_min=self.idle_min, idle_max=self.idle_max)
            try:
                await pool.start()
            except (SpawnerFailed, OSError) as failed:
                tried.append(str(failed))
                await pool.close()
                continue
            except BaseException:
                await asyncio.shield(pool.close())
                raise
            self.pool, self.refusal = pool, ""
            self.no_workspaces = "" if confinement.namespaces else NO_WORKSPACES
            log.info("The code of tools runs by %s", self.describe_confinement())
            return
        self.refusal = self.missing(tried)
        log.warning("%s", self.refusal)

    def candidates(self, tried: list[str]) -> list[Confinement]:
        """The ways to run programs that are allowed here, the best one first."""
        if self.mode == OFF or not sys.platform.startswith("linux"):
            return []
        if not os.path.exists(LISTED_CHILDREN):
            tried.append("the kernel does not list the children of processes: CONFIG_PROC_CHILDREN")
            return []
        if self.mode == UNCONFINED:
            self.folder = tempfile.mkdtemp(prefix="heeler-sandbox-")
            os.chmod(self.folder, 0o711)
            return unconfined_modes(self.runtimes, self.folder, self.packages)
        if self.mode != CONFINED:
            return []
        bwrap = bubblewrap()
        if bwrap is None:
            tried.append("the program bwrap (bubblewrap) is not installed")
            return []
        try:
            return confinements(bwrap, self.runtimes, self.workspaces, self.packages)
        except KeyError as machine:
            tried.append(f"there is no filter of system calls for {machine}")
            return []

    def missing(self, tried: list[str]) -> str:
        """Why no code of tools can run, and what to do."""
        if self.mode == OFF:
            return f"This server runs no code of tools: {VARIABLE} is {OFF}"
        if self.mode not in (CONFINED, UNCONFINED):
            known = f"{CONFINED}, {UNCONFINED}, {CONTAINER} or {OFF}"
            return f"{VARIABLE} is {self.mode!r}: it must be {known}"
        if not sys.platform.startswith("linux"):
            return "This server runs no code of tools: sandboxes need Linux"
        why = "; ".join(dict.fromkeys(tried))
        return f"This machine grants no sandbox for the code of tools ({why}). {HOW_TO_WEAKEN}"

    def describe_confinement(self) -> str:
        """The confinement of programs, in words for the operator's log."""
        assert self.pool is not None
        confinement = self.pool.confinement
        user = "another user" if confinement.first_uid is not None else "the user of the server"
        if not confinement.namespaces:
            files = "not the files" if self.pool.locked else "the files"
            return (
                f"{UNCONFINED}, as {user}: with limits and an empty environment, no wall: it has"
                f" the network and {files} of the machine"
            )
        landlock = "Landlock" if self.pool.locked else "no Landlock"
        return (
            "bubblewrap: namespaces of its own without a network, a filter of system calls,"
            f" {landlock}, limits; to the machine it is {user}; memory and processes are watched,"
            " not by a cgroup"
        )

    @property
    def has_own_users(self) -> bool:
        """Whether each sandbox is a user of the machine that nobody else is."""
        return self.pool is not None and self.pool.confinement.first_uid is not None

    @property
    def counts_processes(self) -> bool:
        """Whether the kernel counts the processes of each sandbox by themselves."""
        return self.pool is not None and self.pool.confinement.counts_processes

    def seen_packages(self, packages: str) -> str:
        if self.pool is None or self.pool.confinement.namespaces:
            return super().seen_packages(packages)
        return packages

    async def close(self) -> None:
        await super().close()
        if self.folder is not None:
            with suppress(OSError):
                await remove_folder(self.folder)
