"""Sandboxes that stay: an agent's programs run in the same one, and share a folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

type SessionState = Literal["idle", "running", "paused", "stopped"]


@dataclass(frozen=True, slots=True)
class SessionStats:
    """The activity of a session, and the usage of all that runs in it now; CPU since it began."""

    state: SessionState
    programs: int = 0
    processes: int = 0
    memory_bytes: int = 0
    cpu_seconds: float = 0.0


class NoSession(Exception):
    """No sandbox could be started; the words say why."""
