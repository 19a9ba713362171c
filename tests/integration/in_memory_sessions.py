"""Sandboxes in memory: they end programs as they are told, and keep to the ports."""

from __future__ import annotations

from collections.abc import Callable

from services.tools.sandbox.ports import Outcome, Program, Workspace
from services.tools.sandbox.sessions import SessionState, SessionStats

type Behaviour = Callable[[Program, dict[str, str]], Outcome]


class InMemorySession:
    """Keeps the contract of `SandboxSession`; `files` are those of its workspace."""

    def __init__(self, behave: Behaviour, files: dict[str, str]) -> None:
        self.behave = behave
        self.files = files
        self.state: SessionState = "idle"
        self.programs = 0

    async def exec(self, program: Program) -> Outcome:
        """Run a program; returns how it ended."""
        if self.state == "stopped":
            return Outcome("error", reason="The sandbox has ended", started=False)
        self.resume()
        self.programs += 1
        outcome = self.behave(program, self.files)
        if outcome.status in ("timeout", "killed"):
            await self.stop()
        return outcome

    def end_program(self, why: str) -> None:
        """A program ends at once, so that none runs."""

    async def pause(self) -> None:
        """Freeze the session if it is idle."""
        self.state = "paused" if self.state == "idle" else self.state

    def resume(self) -> None:
        """Make a frozen session idle again."""
        self.state = "idle" if self.state == "paused" else self.state

    async def stop(self) -> None:
        """End the session, also while it works."""
        self.state = "stopped"

    def stats(self) -> SessionStats:
        return SessionStats(self.state, self.programs)


class InMemorySessions:
    """Keeps the contract of `BaseSandbox` for sessions; the workspaces stay when sessions end."""

    def __init__(self, behave: Behaviour) -> None:
        self.behave = behave
        self.workspaces: dict[str, dict[str, str]] = {}

    def refusal_of(self, program: Program) -> str:
        """Empty: this sandbox takes every program."""
        return ""

    async def start_session(self, workspace: Workspace) -> InMemorySession:
        """A session with the files of a workspace."""
        return InMemorySession(self.behave, self.workspaces.setdefault(workspace.path, {}))
