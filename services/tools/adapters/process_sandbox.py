"""The sandbox of processes: each program in namespaces of its own, started ahead, used once."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pydantic_core import to_json

from services.tools.adapters.folder_removal import remove_folder
from services.tools.adapters.sandbox_execution import Answer, Execution
from services.tools.adapters.sandbox_pool import IDLE_MAX, IDLE_MIN, SandboxPool
from services.tools.adapters.sandbox_session import ProcessSession
from services.tools.adapters.sandbox_spawner import SpawnerFailed
from services.tools.sandbox import javascript
from services.tools.sandbox.confinement import (
    Confinement,
    Runtimes,
    bubblewrap,
    confined,
    runtimes,
    unconfined,
)
from services.tools.sandbox.places import NoPlace, Places
from services.tools.sandbox.ports import Outcome, Program, Workspace
from services.tools.sandbox.sessions import NoSession
from services.tools.sandbox.spawner_protocol import (
    PACKAGES_PATH,
    PROGRAM_BYTES_MAX,
    RESULT_BYTES_MAX,
    WORKSPACE_PATH,
)

log = logging.getLogger(__name__)

VARIABLE = "HEELER_SANDBOX"
CALLING = 6  # programs that call tools, at once
CONFINED, UNCONFINED, OFF = "process", "process-unconfined", "off"
# Without it nobody could watch what the processes of a sandbox use together.
LISTED_CHILDREN = "/proc/thread-self/children"
LANGUAGES = ("python", "shell", "javascript", "typescript")
TOO_LONG = f"Code and arguments have more than {PROGRAM_BYTES_MAX} bytes"
NAME = re.compile(r"[A-Za-z_$][\w$]*|", re.ASCII)  # or none
NO_WORKSPACES = f"Workspaces of agents need namespaces, which {VARIABLE}={UNCONFINED} does without"
HOW_TO_WEAKEN = (
    f"Whoever runs the server may allow the weaker mode by {VARIABLE}={UNCONFINED}: there the code"
    " of tools has limits and an empty environment, but the network of the server, and where the"
    " kernel has no Landlock its files"
)


class ProcessSandbox:
    """Runs programs in processes. `refusal` says why none can run here, if so."""

    def __init__(
        self,
        mode: str = CONFINED,
        *,
        workspaces: str = "",
        packages: str = "",
        places: Places | None = None,
        idle_min: int = IDLE_MIN,
        idle_max: int = IDLE_MAX,
    ) -> None:
        self.idle_min = idle_min
        self.idle_max = idle_max
        self.mode = mode
        self.workspaces = workspaces
        self.packages = packages
        self.places = places or Places()
        self.calling_places = Places(CALLING, of_organisation_max=CALLING - 1, of_agent_max=2)
        self.runtimes: Runtimes = runtimes()
        self.pool: SandboxPool | None = None
        self.folder: str | None = None
        self.refusal = "The sandbox has not started yet"

    async def start(self) -> None:
        """Find out what the machine grants; say so in the log; never raises for what it lacks."""
        tried: list[str] = []
        try:
            candidates = self.candidates(tried)
        except OSError as failed:
            candidates = []
            tried.append(str(failed))
        for confinement in candidates:
            pool = SandboxPool(confinement, idle_min=self.idle_min, idle_max=self.idle_max)
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
            log.info("The code of tools runs by %s", self.granted())
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
            return unconfined(self.runtimes, self.folder, self.packages)
        if self.mode != CONFINED:
            return []
        bwrap = bubblewrap()
        if bwrap is None:
            tried.append("the program bwrap (bubblewrap) is not installed")
            return []
        try:
            return confined(bwrap, self.runtimes, self.workspaces, self.packages)
        except KeyError as machine:
            tried.append(f"there is no filter of system calls for {machine}")
            return []

    def missing(self, tried: list[str]) -> str:
        """Why no code of tools can run, and what to do."""
        if self.mode == OFF:
            return f"This server runs no code of tools: {VARIABLE} is {OFF}"
        if self.mode not in (CONFINED, UNCONFINED):
            return f"{VARIABLE} is {self.mode!r}: it must be {CONFINED}, {UNCONFINED} or {OFF}"
        if not sys.platform.startswith("linux"):
            return "This server runs no code of tools: sandboxes need Linux"
        why = "; ".join(dict.fromkeys(tried))
        return f"This machine grants no sandbox for the code of tools ({why}). {HOW_TO_WEAKEN}"

    def granted(self) -> str:
        """What holds the programs, for the operator."""
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

    async def run(self, program: Program) -> Outcome:
        """How a program ended. Cancelling it kills the program."""
        return await self.placed(program, self.places)

    async def run_calling(self, program: Program, answer: Answer) -> Outcome:
        """The same of a program that calls tools. It has a place of its own kind: what it calls
        needs one, too, and never waits for it."""
        return await self.placed(program, self.calling_places, answer)

    async def placed(
        self, program: Program, places: Places, answer: Answer | None = None
    ) -> Outcome:
        """How a program ended that ran as soon as there was a place for it."""
        refused = self.refused(program)
        if refused:
            return not_started(refused)
        data = self.encoded(program)
        if len(data) > PROGRAM_BYTES_MAX:
            return not_started(TOO_LONG)
        assert self.pool is not None
        try:
            async with places.hold(program.org, program.agent_id):
                sandbox = await self.pool.take(program.packages)
                try:
                    return await Execution(sandbox, program.limits, answer=answer).outcome(data)
                finally:
                    await self.pool.give_back(sandbox)
        except NoPlace as full:
            return not_started(full.reason)
        except (SpawnerFailed, OSError) as failed:
            return not_started(f"No sandbox could be started: {failed}")

    def refused(self, program: Program) -> str:
        """Why a program cannot run here; empty if it can."""
        if self.refusal:
            return self.refusal
        if program.language not in LANGUAGES:
            return f"The language {program.language!r} is none of {', '.join(LANGUAGES)}"
        if program.language in ("javascript", "typescript") and self.runtimes.node is None:
            return "JavaScript needs Node, which is not installed where the server runs"
        if program.language == "typescript" and not self.runtimes.node_takes_types:
            return "TypeScript needs Node 22.6 or newer where the server runs: write JavaScript"
        if program.language == "shell" and not Path("/bin/sh").exists():
            return "Shell needs /bin/sh, which is not there where the server runs"
        if program.language == "typescript" and not NAME.fullmatch(program.function):
            return f"{program.function!r} is no name of a function in TypeScript"
        wrong = [name for name in program.environment if not name or "=" in name or "\0" in name]
        if wrong or any("\0" in value for value in program.environment.values()):
            return "The environment has a name or a value that no process can have"
        return ""

    async def start_session(self, workspace: Workspace) -> ProcessSession:
        """A sandbox that stays, with a workspace; raises NoSession."""
        if self.refusal or self.pool is None:
            raise NoSession(self.refusal)
        pool = self.pool
        if not pool.confinement.namespaces:
            raise NoSession(NO_WORKSPACES)
        try:
            sandbox = await pool.cold(workspace)
        except (SpawnerFailed, OSError) as failed:
            raise NoSession(f"No sandbox could be started: {failed}") from None
        session = ProcessSession(sandbox, self.encoded, lambda: pool.used.discard(sandbox))
        await session.begin()
        return session

    def encoded(self, program: Program) -> bytes:
        """A program as it is sent."""
        return to_json(self.told(program), inf_nan_mode="null")

    def told(self, program: Program) -> Mapping[str, object]:
        """A program as the process inside reads it."""
        limits = program.limits
        assert self.pool is not None
        confinement = self.pool.confinement
        counted = confinement.counts_processes
        packages = (
            PACKAGES_PATH if confinement.namespaces and program.packages else program.packages
        )
        return {
            "packages": packages,
            "stays": False,
            "folder": WORKSPACE_PATH if program.in_workspace else "",
            "language": program.language,
            "source": source_of(program),
            "function": program.function,
            "last_value": program.last_value,
            "prelude": program.prelude,
            "arguments": program.arguments,
            "environment": dict(program.environment),
            "node": self.runtimes.node,
            "result_bytes_max": RESULT_BYTES_MAX,
            "limits": {
                "cpu_seconds": limits.cpu_seconds,
                "memory_bytes": limits.memory_bytes,
                "processes": limits.processes if counted else None,
                "file_bytes": limits.file_bytes,
            },
        }

    async def close(self) -> None:
        """Kill all programs; wait until nothing of them runs."""
        self.refusal = "The server is being stopped"
        if self.pool is not None:
            await self.pool.close()
            self.pool = None
        if self.folder is not None:
            with suppress(OSError):
                await remove_folder(self.folder)


def source_of(program: Program) -> str:
    """The source, with what is put around it."""
    if program.language == "typescript":
        return javascript.typed(program.source, program.function, program.arguments)
    if program.language != "javascript":
        return program.source
    return (
        javascript.shown(program.source)
        if program.last_value
        else javascript.called(program.source)
    )


def not_started(reason: str) -> Outcome:
    """A program that was refused."""
    return Outcome("error", reason=reason, started=False)
