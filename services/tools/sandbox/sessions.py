"""Sandboxes that stay: an agent's programs run in the same one, and share a folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from services.tools.sandbox.ports import Outcome, Program, Workspace

type SessionState = Literal["idle", "running", "paused", "stopped"]


@dataclass(frozen=True, slots=True)
class SessionStats:
    """The activity of a session, and the usage of all that runs in it now; CPU since it began."""

    state: SessionState
    programs: int = 0
    processes: int = 0
    memory_bytes: int = 0
    cpu_seconds: float = 0.0


class SandboxSession(Protocol):
    """One sandbox that stays. What a program leaves running goes on, unless it is paused."""

    async def exec(self, program: Program) -> Outcome:
        """The outcome of a program, one at a time; a paused session goes on before it. A program
        that did not end by itself ends the session. Nothing is started in one that is stopped."""

    def end_program(self, why: str) -> None:
        """End the program that runs, and the session with it; nothing happens if none runs."""

    async def pause(self) -> None:
        """Freeze everything in it; nothing happens while a program runs. Safe to repeat."""

    def resume(self) -> None:
        """Let everything in it go on. Safe to repeat."""

    async def stop(self) -> None:
        """End everything in it; the workspace stays. Safe to repeat."""

    def stats(self) -> SessionStats:
        """The state of the session and its programs."""


class SandboxSessions(Protocol):
    """Starts sandboxes that stay."""

    def refusal_of(self, program: Program) -> str:
        """Why a program cannot run here; empty if it can."""

    async def start_session(self, workspace: Workspace) -> SandboxSession:
        """A sandbox with this workspace at /workspace; raises NoSession."""


class NoSession(Exception):
    """No sandbox could be started; the words say why."""
