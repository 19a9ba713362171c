"""The restores of an agent, one at a time: what is wanted back, how far that is, how it ended."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel

from libs.contracts.api.restores import (
    RequestRestore,
    RestoreCompleted,
    RestoreDelayed,
    RestoredPart,
    RestoreRefused,
    RestoreRequested,
    RestoreUndone,
)
from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import CONFLICT, PENDING_APPROVAL, UNAVAILABLE, Event, Rejected

# A restore that is not complete after so many attempts is undone; an undo is tried for ever.
ATTEMPTS_MAX = 20
REASON_CHARS_MAX = 1_000

Phase = Literal["none", "restoring", "undoing"]


class RestoresState(BaseModel):
    """The state of an agent's newest restore. `requested_version` is the version of the event that
    wanted it: right after that, nothing was done of it."""

    phase: Phase = "none"
    restore_id: str = ""
    agent_id: str = ""
    cut: int = 0
    cut_at: datetime | None = None
    what: list[RestoredPart] = []
    requested_by: str = ""
    requested_version: int = 0
    attempts: int = 0


class AgentRestores(Aggregate[RestoresState]):
    """All restores of one agent."""

    State = RestoresState

    @property
    def is_open(self) -> bool:
        """Whether there is something left to do."""
        return self.state.phase != "none"

    def request(self, command: RequestRestore, *, actor: str, at: datetime) -> Rejected | None:
        """Begin a restore, unless another one is under way; twice is once."""
        if self.state.restore_id == command.restore_id:
            return None
        if self.is_open:
            reason = (
                f"Another restore of agent {command.agent_id} is under way: wait for its end, and"
                " send this one again"
            )
            return Rejected(code=CONFLICT, reason=reason)
        self.record(
            RestoreRequested,
            at=at,
            restore_id=command.restore_id,
            agent_id=command.agent_id,
            moment=command.moment,
            cut=command.cut,
            cut_at=command.cut_at,
            what=command.what,
            requested_by=actor,
        )
        return None

    def delay(self, reason: str, *, begun: bool, at: datetime) -> None:
        """Record that an attempt has failed; after several the restore is given up."""
        attempts = self.state.attempts + 1
        if self.state.phase == "restoring" and attempts >= ATTEMPTS_MAX:
            words = f"{reason} (tried {attempts} times)"
            self.refuse(Rejected(code=UNAVAILABLE, reason=words), undoes=begun, at=at)
        elif self.is_open:
            self.record(
                RestoreDelayed,
                at=at,
                restore_id=self.state.restore_id,
                attempts=attempts,
                reason=reason[:REASON_CHARS_MAX],
            )

    def refuse(self, refused: Rejected, *, undoes: bool, at: datetime) -> None:
        """Record that a part cannot be restored."""
        if self.state.phase == "restoring":
            code = CONFLICT if refused.code == PENDING_APPROVAL else refused.code
            self.record(
                RestoreRefused,
                at=at,
                restore_id=self.state.restore_id,
                code=code,
                reason=refused.reason[:REASON_CHARS_MAX],
                undoes=undoes,
            )

    def complete(self, *, at: datetime) -> None:
        """Record that all that was wanted is done, or undone."""
        match self.state.phase:
            case "restoring":
                self.record(RestoreCompleted, at=at, restore_id=self.state.restore_id)
            case "undoing":
                self.record(RestoreUndone, at=at, restore_id=self.state.restore_id)

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        match event:
            case RestoreRequested():
                self.state = RestoresState(
                    phase="restoring",
                    restore_id=event.restore_id,
                    agent_id=event.agent_id,
                    cut=event.cut,
                    cut_at=event.cut_at,
                    what=event.what,
                    requested_by=event.requested_by,
                    requested_version=event.originator_version,
                )
            case RestoreDelayed():
                self.state.attempts = event.attempts
            case RestoreRefused():
                self.state.phase = "undoing" if event.undoes else "none"
                self.state.attempts = 0
            case RestoreUndone() | RestoreCompleted():
                self.state.phase = "none"
