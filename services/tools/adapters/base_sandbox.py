"""Sandboxes of a pool, whatever these are made of."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from libs.bus.fair_semaphore import FairSemaphore, NoPlace
from services.tools.adapters.running_sandbox import NotStarted
from services.tools.adapters.sandbox_execution import Answer, Execution
from services.tools.adapters.sandbox_pool import SandboxPool
from services.tools.adapters.sandbox_session import SandboxSession
from services.tools.sandbox import argument_fitting, argument_models, javascript_wrapper
from services.tools.sandbox.confinement import Runtimes
from services.tools.sandbox.ports import Outcome, Program, Workspace
from services.tools.sandbox.sessions import NoSession
from services.tools.sandbox.spawner_protocol import (
    PACKAGES_PATH,
    PROGRAM_BYTES_MAX,
    RESULT_BYTES_MAX,
    WORKSPACE_PATH,
)

CALLING = 6  # programs that call tools, at once
LANGUAGES = ("python", "shell", "javascript", "typescript")
TOO_LONG = f"Code and arguments have more than {PROGRAM_BYTES_MAX} bytes"
FITTING = Path(argument_fitting.__file__).read_text(encoding="utf-8")
MODELLING = Path(argument_models.__file__).read_text(encoding="utf-8")
NAME = re.compile(r"[A-Za-z_$][\w$]*|", re.ASCII)  # or none


class BaseSandbox(ABC):
    """Keeps the contract of `Sandbox`, and starts sandboxes that stay. `refusal` says why none can
    run here, if so; `no_packages` why none has packages; `where` whose the interpreters are."""

    where = "where the server runs"
    no_packages = ""
    no_workspaces = ""

    def __init__(self, places: FairSemaphore | None = None) -> None:
        self.places = places or FairSemaphore()
        self.calling_places = FairSemaphore(
            CALLING, of_organisation_max=CALLING - 1, of_agent_max=2
        )
        self.runtimes = Runtimes()
        self.pool: SandboxPool[Any] | None = None
        self.refusal = "The sandbox has not started yet"

    @abstractmethod
    async def start(self) -> None:
        """Find out what there is; say so in the log; never raises for what is missing."""

    @property
    @abstractmethod
    def has_own_users(self) -> bool:
        """Whether each workspace can belong to a user of the machine that nobody else is."""

    @property
    @abstractmethod
    def counts_processes(self) -> bool:
        """Whether a program can bound its own processes, apart from those of all others."""

    async def run(self, program: Program) -> Outcome:
        """The outcome of a program. Cancelling it kills the program."""
        return await self.run_in_turn(program, self.places)

    async def run_calling(self, program: Program, answer: Answer) -> Outcome:
        """The same of a program that calls tools. It has a place of its own kind: what it calls
        needs one, too, and never waits for it."""
        return await self.run_in_turn(program, self.calling_places, answer)

    async def run_in_turn(
        self, program: Program, places: FairSemaphore, answer: Answer | None = None
    ) -> Outcome:
        """Run a program as soon as one of the `places` is free; returns how it ended."""
        refused = self.refusal_of(program)
        if refused:
            return not_started(refused)
        data = self.encode(program)
        if len(data) > PROGRAM_BYTES_MAX:
            return not_started(TOO_LONG)
        try:
            async with places.hold(program.org, program.agent_id):
                if self.pool is None:  # closed while it waited
                    return not_started(self.refusal)
                pool = self.pool
                sandbox = await pool.take(program.packages)
                try:
                    return await Execution(sandbox, program.limits, answer=answer).outcome(data)
                finally:
                    await pool.give_back(sandbox)
        except NoPlace as full:
            return not_started(full.reason)
        except (NotStarted, OSError) as failed:
            return not_started(f"No sandbox could be started: {failed}")

    def refusal_of(self, program: Program) -> str:
        """Why a program cannot run here; empty if it can."""
        if self.refusal:
            return self.refusal
        if program.language not in LANGUAGES:
            return f"The language {program.language!r} is none of {', '.join(LANGUAGES)}"
        if program.language in ("javascript", "typescript") and self.runtimes.node is None:
            return f"JavaScript needs Node, which is not installed {self.where}"
        if program.language == "typescript" and not self.runtimes.node_takes_types:
            return f"TypeScript needs Node 22.6 or newer {self.where}: write JavaScript"
        if program.language == "shell" and not self.runtimes.shell:
            return f"Shell needs /bin/sh, which is not there {self.where}"
        if program.language == "typescript" and not NAME.fullmatch(program.function):
            return f"{program.function!r} is no name of a function in TypeScript"
        wrong = [name for name in program.environment if not name or "=" in name or "\0" in name]
        if wrong or any("\0" in value for value in program.environment.values()):
            return "The environment has a name or a value that no process can have"
        return ""

    async def start_session(self, workspace: Workspace) -> SandboxSession:
        """A sandbox that stays, with this workspace at /workspace; raises NoSession."""
        if self.refusal or self.pool is None:
            raise NoSession(self.refusal)
        if self.no_workspaces:
            raise NoSession(self.no_workspaces)
        pool = self.pool
        try:
            sandbox = await pool.cold(workspace)
        except (NotStarted, OSError) as failed:
            raise NoSession(f"No sandbox could be started: {failed}") from None
        session = SandboxSession(sandbox, self.encode, lambda: pool.used.discard(sandbox))
        await session.begin()
        return session

    def encode(self, program: Program) -> bytes:
        """The program as JSON, as the process inside reads it."""
        return to_json(self.program_fields(program), inf_nan_mode="null")

    def program_fields(self, program: Program) -> Mapping[str, object]:
        """The fields of a program that the process inside reads."""
        limits = program.limits
        return {
            "packages": self.seen_packages(program.packages),
            "stays": "",
            "folder": WORKSPACE_PATH if program.in_workspace else "",
            "language": program.language,
            "source": source_of(program),
            "function": program.function,
            "last_value": program.last_value,
            "prelude": program.prelude,
            "arguments": program.arguments,
            "schema": program.schema,
            "fitting": FITTING if program.function else "",
            "modelling": MODELLING if program.schema else "",
            "environment": dict(program.environment),
            "node": self.runtimes.node,
            "result_bytes_max": RESULT_BYTES_MAX,
            "limits": {
                "cpu_seconds": limits.cpu_seconds,
                "memory_bytes": limits.memory_bytes,
                "processes": limits.processes if self.counts_processes else None,
                "file_bytes": limits.file_bytes,
            },
        }

    def seen_packages(self, packages: str) -> str:
        """Where a program finds the folder of its packages."""
        return PACKAGES_PATH if packages else ""

    async def close(self) -> None:
        """Kill all programs; wait until nothing of them runs."""
        self.refusal = "The server is being stopped"
        if self.pool is not None:
            await self.pool.close()
            self.pool = None


def source_of(program: Program) -> str:
    """The source, with what is put around it."""
    if program.language == "typescript":
        return javascript_wrapper.typed_call(program.source, program.function, program.arguments)
    if program.language != "javascript":
        return program.source
    return (
        javascript_wrapper.script_value(program.source)
        if program.last_value
        else javascript_wrapper.script_call(program.source)
    )


def not_started(reason: str) -> Outcome:
    """A program that was refused."""
    return Outcome("error", reason=reason, started=False)
