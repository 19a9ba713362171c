"""A sandbox that stays: its first process waits for further programs, frozen between them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress

from pydantic_core import to_json

from services.tools.adapters.process_usage import Usage, scratch_of, usage_of
from services.tools.adapters.sandbox_execution import SCRATCH_FOLDERS, Execution
from services.tools.adapters.sandbox_process import SandboxProcess
from services.tools.sandbox.ports import Outcome, Program
from services.tools.sandbox.sessions import SessionState, SessionStats
from services.tools.sandbox.spawner_protocol import PROGRAM_BYTES_MAX

# What forks while it is being frozen is seen by another look.
FREEZE_LOOKS_MAX = 100
FREEZE_LOOK_SECONDS = 0.005


class ProcessSession:
    """Keeps the contract of `SandboxSession` with a process. `encoded` says a program as the
    process inside reads it, `ended` is told when it has been stopped."""

    def __init__(
        self,
        sandbox: SandboxProcess,
        encoded: Callable[[Program], bytes],
        ended: Callable[[], None],
    ) -> None:
        self.sandbox = sandbox
        self.encoded = encoded
        self.ended = ended
        self.state: SessionState = "idle"
        self.execution: Execution | None = None
        self.programs = 0

    async def begin(self) -> None:
        """Have its first process stay."""
        await self.sandbox.send(to_json({"stays": True}))

    @property
    def living(self) -> bool:
        """Whether it can run another program."""
        return self.state != "stopped" and not self.sandbox.died

    async def exec(self, program: Program) -> Outcome:
        """How a program ended; whatever does not end by itself ends the session."""
        assert self.state != "running", "one program at a time"
        if not self.living:
            await self.stop()
            return Outcome("error", reason="The sandbox has ended", started=False)
        data = self.encoded(program)
        if len(data) > PROGRAM_BYTES_MAX:
            why = f"Code and arguments have more than {PROGRAM_BYTES_MAX} bytes"
            return Outcome("error", reason=why, started=False)
        self.resume()
        self.state = "running"
        self.programs += 1
        try:
            self.execution = Execution(self.sandbox, program.limits, stays=True)
            outcome = await self.execution.outcome(data)
        except BaseException:
            await asyncio.shield(self.stop())
            raise
        if self.sandbox.ended:
            await self.stop()
        else:
            self.sandbox.forget_result()
            self.state = "idle"
        return outcome

    def end_program(self, why: str) -> None:
        """End the program that runs, and the session with it."""
        if self.state == "running" and self.execution is not None:
            self.execution.end(why)

    async def pause(self) -> None:
        """Freeze everything in it; end it, if it forks faster than it can be frozen."""
        if self.state != "idle":
            return
        for _ in range(FREEZE_LOOKS_MAX):
            self.signal(signal.SIGSTOP)
            if self.frozen():
                self.state = "paused"
                return
            await asyncio.sleep(FREEZE_LOOK_SECONDS)
        await asyncio.shield(self.stop())

    def frozen(self) -> bool:
        """Whether nothing in it runs."""
        return all(is_stopped(pid) for pid in self.usage().pids)

    def resume(self) -> None:
        """Let everything in it go on."""
        if self.state == "paused":
            self.signal(signal.SIGCONT)
            self.state = "idle"

    def signal(self, number: signal.Signals) -> None:
        """Signal everything in it."""
        for pid in self.usage().pids:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    async def stop(self) -> None:
        """End everything in it."""
        if self.state == "stopped":
            return
        self.state = "stopped"
        with suppress(TimeoutError):
            await self.sandbox.close()
        self.ended()

    def usage(self) -> Usage:
        """What all of it uses now."""
        init = self.sandbox.init
        return Usage() if init is None or self.sandbox.died else usage_of(init)

    def stats(self) -> SessionStats:
        """What it is doing, and what it uses."""
        if not self.living:
            return SessionStats("stopped", self.programs)
        usage = self.usage()
        init = self.sandbox.init
        held = sum(scratch_of(init, folder)[0] for folder in SCRATCH_FOLDERS) if init else 0
        return SessionStats(
            self.state,
            self.programs,
            processes=len(usage.pids),
            memory_bytes=usage.memory_bytes + held,
            cpu_seconds=usage.cpu_seconds,
        )


def is_stopped(pid: int) -> bool:
    """Whether a process that was told to stop does nothing more, or is gone. One that waits in the
    kernel (D), as for a child of vfork that is frozen itself, stops before it goes on."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in (b"T", b"t", b"D", b"Z", b"X")
    except OSError:
        return True
