"""A sandbox that stays: its first process waits for further programs, frozen between them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pydantic_core import to_json

from services.tools.adapters.running_sandbox import RunningSandbox
from services.tools.adapters.sandbox_execution import Execution
from services.tools.sandbox import session_executor
from services.tools.sandbox.ports import Outcome, Program
from services.tools.sandbox.sessions import SessionState, SessionStats
from services.tools.sandbox.spawner_protocol import PROGRAM_BYTES_MAX

STAYING = Path(session_executor.__file__).read_text(encoding="utf-8")


class SandboxSession:
    """One sandbox that stays. What a program leaves running goes on, unless it is paused. `encoded`
    says a program as the process inside reads it, `ended` is told when it has been stopped."""

    def __init__(
        self,
        sandbox: RunningSandbox,
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
        await self.sandbox.send(to_json({"stays": STAYING}))

    @property
    def living(self) -> bool:
        """Whether it can run another program."""
        return self.state != "stopped" and not self.sandbox.died

    async def exec(self, program: Program) -> Outcome:
        """How a program ended, one at a time; a paused session goes on before it. A program that
        did not end by itself ends the session. Nothing is started in one that is stopped."""
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
        """End the program that runs, and the session with it; nothing happens if none runs."""
        if self.state == "running" and self.execution is not None:
            self.execution.end(why)

    async def pause(self) -> None:
        """Freeze everything in it, unless a program runs; end it, if it cannot be frozen. Safe to
        repeat."""
        if self.state != "idle":
            return
        if await self.sandbox.freeze():
            self.state = "paused"
        else:
            await asyncio.shield(self.stop())

    def resume(self) -> None:
        """Let everything in it go on. Safe to repeat."""
        if self.state == "paused":
            self.sandbox.thaw()
            self.state = "idle"

    async def stop(self) -> None:
        """End everything in it; the workspace stays. Safe to repeat."""
        if self.state == "stopped":
            return
        self.state = "stopped"
        with suppress(TimeoutError):
            await self.sandbox.close()
        self.ended()

    def stats(self) -> SessionStats:
        """The session's activity and usage."""
        if not self.living:
            return SessionStats("stopped", self.programs)
        use = self.sandbox.use()
        return SessionStats(
            self.state,
            self.programs,
            processes=use.processes + 1,
            memory_bytes=use.memory_bytes,
            cpu_seconds=use.cpu_seconds,
        )
