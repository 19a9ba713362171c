"""An import: what is to be made of which source, how far that is, and how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pydantic import BaseModel

from libs.contracts.api.imports import (
    ERROR_CHARS_MAX,
    ERRORS_KEPT_MAX,
    FORKS_OF_ORG_MAX,
    IMPORTS_OF_ORG_MAX,
    LEFT_OUT_KEPT_MAX,
    EntryError,
    ImportAbandoned,
    ImportCancelled,
    ImportCompleted,
    ImportCounts,
    ImportDelayed,
    ImportForgotten,
    ImportOptions,
    ImportProgressed,
    ImportRequested,
    ImportSource,
    ImportUndone,
    ImportValidated,
    RequestImport,
)
from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import CONFLICT, NOT_FOUND, RATE_LIMITED, Event, Rejected

ATTEMPTS_MAX = 5
# An import that is not complete by then is given up.
SECONDS_MAX = 6 * 3_600.0
RETRY_AFTER_SECONDS = 10

type Ended = Literal["completed", "failed", "cancelled", "forgotten"]
type Phase = Literal["unknown", "pending", "importing", "undoing"] | Ended


class ImportState(BaseModel):
    """The state of an import."""

    phase: Phase = "unknown"
    source: ImportSource | None = None
    options: ImportOptions | None = None
    requested_by: str = ""
    requested_at: datetime | None = None
    counts: ImportCounts = ImportCounts()
    done: ImportCounts = ImportCounts()
    keeps_ids: bool = False
    agent_ids: list[str] = []
    replaced: list[str] = []
    cut: int | None = None
    present: list[str] = []
    attempts: int = 0
    cancelled: bool = False
    # Whether a command of a broken attempt may still be on its way when it is taken back.
    is_unsettled: bool = False
    errors: list[EntryError] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSummary:
    """The facts about a source that was read to its end; see `ImportValidated`."""

    counts: ImportCounts
    keeps_ids: bool
    agent_ids: list[str]
    replaced: list[str]
    cut: int | None
    present: list[str]
    left_out: list[EntryError]


class AgentImport(Aggregate[ImportState]):
    """One import."""

    State = ImportState

    @property
    def is_open(self) -> bool:
        """Whether there is something left to do."""
        return self.state.phase in ("pending", "importing", "undoing")

    def request(
        self, command: RequestImport, unfinished: int, *, at: datetime, actor: str
    ) -> Rejected | None:
        """Begin to exist, unless too many of its kind have not ended."""
        if self.exists:
            return Rejected(code=CONFLICT, reason=f"Import {self.id} exists already")
        is_fork = command.source.form == "fork"
        kind, room = ("forks", FORKS_OF_ORG_MAX) if is_fork else ("imports", IMPORTS_OF_ORG_MAX)
        if unfinished >= room:
            return Rejected(
                code=RATE_LIMITED,
                reason=f"{unfinished} {kind} have not ended, and there is room for {room}:"
                " wait for one, or cancel it",
                details={"retry_after_seconds": RETRY_AFTER_SECONDS},
            )
        self.record(
            ImportRequested,
            at=at,
            source=command.source,
            options=command.options,
            requested_by=actor,
        )
        return None

    def validate(self, found: SourceSummary, *, at: datetime) -> None:
        """Record that nothing is wrong with the source; an import that goes on already has."""
        if self.state.phase == "pending":
            self.record(
                ImportValidated,
                at=at,
                counts=found.counts,
                keeps_ids=found.keeps_ids,
                agent_ids=found.agent_ids,
                replaced=found.replaced,
                cut=found.cut,
                present=found.present,
                left_out=found.left_out[:LEFT_OUT_KEPT_MAX],
            )

    def progress(self, done: ImportCounts, *, at: datetime) -> None:
        """Record how much is transferred, if that is more than before."""
        if self.state.phase == "importing" and done.lines > self.state.done.lines:
            self.record(ImportProgressed, at=at, done=done)

    def delay(self, reason: str, *, at: datetime) -> None:
        """Record that an attempt has failed; the last one that may be is the reason to give up.
        What is being taken back is taken back however often that has to be tried."""
        if not self.is_open:
            return
        attempts = self.state.attempts + 1
        if self.state.phase != "undoing" and attempts >= ATTEMPTS_MAX:
            words = f"{reason} (tried {attempts} times)"
            self.give_up([EntryError(entry="import", message=words)], at=at)
            return
        self.record(ImportDelayed, at=at, attempts=attempts, reason=reason[:ERROR_CHARS_MAX])

    def is_late(self, *, at: datetime) -> bool:
        """Whether it should have been complete by now."""
        begun = self.state.requested_at
        return begun is not None and (at - begun).total_seconds() > SECONDS_MAX

    def give_up(self, errors: list[EntryError], *, is_conflict: bool = False, at: datetime) -> None:
        """Record why it cannot be completed."""
        if self.state.phase in ("pending", "importing"):
            kept = [
                error.model_copy(update={"message": error.message[:ERROR_CHARS_MAX]})
                for error in errors[:ERRORS_KEPT_MAX]
            ]
            undoes = self.state.phase == "importing"
            self.record(ImportAbandoned, at=at, errors=kept, undoes=undoes, is_conflict=is_conflict)

    def cancel(self, *, at: datetime) -> Rejected | None:
        """Record that nobody wants it any more; twice is once."""
        if not self.exists:
            return Rejected(code=NOT_FOUND, reason=f"Import with id '{self.id}' not found")
        if self.state.phase in ("completed", "failed"):
            return Rejected(code=CONFLICT, reason=f"Import {self.id} has {self.state.phase}")
        if self.state.phase in ("pending", "importing"):
            self.record(ImportCancelled, at=at, undoes=self.state.phase == "importing")
        return None

    def end_undo(self, *, at: datetime) -> None:
        """Record that nothing is left of it."""
        if self.state.phase == "undoing":
            status = "cancelled" if self.state.cancelled else "failed"
            self.record(ImportUndone, at=at, status=status)

    def complete(
        self, agent_ids: list[str], *, at: datetime, left_out: Sequence[EntryError] = ()
    ) -> None:
        """Record that its agents are there, and what was left out."""
        if self.state.phase == "importing":
            kept = list(left_out[:LEFT_OUT_KEPT_MAX])
            self.record(ImportCompleted, at=at, agent_ids=agent_ids, left_out=kept)

    def forget(self, *, at: datetime) -> None:
        """Nothing is left of it; said once."""
        if self.state.phase in ("completed", "failed", "cancelled"):
            self.record(ImportForgotten, at=at)

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        state = self.state
        match event:
            case ImportRequested():
                state.phase, state.requested_at = "pending", event.timestamp
                state.source, state.options = event.source, event.options
                state.requested_by = event.requested_by
            case ImportValidated():
                state.phase, state.counts = "importing", event.counts
                state.keeps_ids, state.agent_ids = event.keeps_ids, event.agent_ids
                state.replaced, state.present = event.replaced, event.present
                state.cut = event.cut
                state.attempts = 0
            case ImportProgressed():
                state.done, state.attempts = event.done, 0
            case ImportDelayed():
                state.attempts, state.is_unsettled = event.attempts, True
            case ImportAbandoned():
                state.phase = "undoing" if event.undoes else "failed"
                state.errors, state.attempts = event.errors, 0
            case ImportCancelled():
                state.phase = "undoing" if event.undoes else "cancelled"
                state.cancelled, state.is_unsettled, state.attempts = True, True, 0
            case ImportUndone():
                state.phase = event.status
            case ImportCompleted():
                state.phase, state.agent_ids = "completed", event.agent_ids
            case ImportForgotten():
                self.state = ImportState(phase="forgotten")
