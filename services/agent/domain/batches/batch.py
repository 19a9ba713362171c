"""A batch: its items are started, a few at a time, and each ends once."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

from libs.contracts.agent.batches import (
    BatchAccepted,
    BatchCallbackAttempted,
    BatchCancelled,
    BatchCompleted,
    BatchItemEnded,
    BatchItemsStarted,
    BatchStatus,
    ItemOutcome,
    StartBatch,
)
from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import CONFLICT, NOT_FOUND, Context, Event, Rejected
from libs.contracts.letta.error_bodies import not_found
from services.agent.domain.conversations.callback_attempts import CallbackOutcome

ItemPhase = Literal["pending", "running", "completed", "failed", "cancelled"]


class BatchState(BaseModel):
    """The state of each item, by its number; the texts and results of items are in rows."""

    agent_id: str = ""
    at_once: int = 1
    keep: bool = False
    cancelled: bool = False
    ended: bool = False
    callback_attempts: int = 0
    items: list[ItemPhase] = Field(default_factory=list)
    agents: list[str] = Field(default_factory=list)
    actor: str = ""
    correlation_id: str = ""


class Batch(Aggregate[BatchState]):
    """One batch."""

    State = BatchState

    @property
    def deleted(self) -> bool:
        """Whether nothing will happen to it any more."""
        return self.state.ended

    @property
    def is_open(self) -> bool:
        """Whether it was accepted and has not ended."""
        return self.exists and not self.state.ended

    @property
    def is_done(self) -> bool:
        """Whether every item has ended."""
        return not self.numbers("pending") and not self.numbers("running")

    def numbers(self, phase: ItemPhase) -> list[int]:
        """The items in a phase, the first of the request first."""
        return [number for number, item in enumerate(self.state.items) if item == phase]

    def context(self) -> Context:
        """In whose name it is carried on, and to which story that belongs."""
        return Context(
            message_id=self.id,
            org=self.org,
            actor=self.state.actor,
            correlation_id=self.state.correlation_id,
        )

    def accept(self, command: StartBatch, context: Context, *, at: datetime) -> Rejected | None:
        """Accept these items, none of which is started yet; refused where that was done before."""
        if self.exists:
            return Rejected(code=CONFLICT, reason=f"{self.id} was accepted before")
        self.record(
            BatchAccepted,
            at=at,
            agent_id=command.agent_id,
            items=command.items,
            at_once=command.at_once,
            keep=command.keep,
            callback_url=command.callback_url,
            actor=context.actor,
            correlation_id=context.correlation_id or context.message_id,
        )
        return None

    def start(self, busy_agents: Collection[str], *, at: datetime) -> list[int]:
        """Start as many items as may run, none of them of an agent that is busy with as many items
        as it may be; returns their numbers."""
        if not self.is_open or self.state.cancelled:
            return []
        room = self.state.at_once - len(self.numbers("running"))
        ready = [n for n in self.numbers("pending") if self.state.agents[n] not in busy_agents]
        numbers = ready[: max(room, 0)]
        if numbers:
            self.record(BatchItemsStarted, at=at, numbers=numbers)
        return numbers

    def end_items(self, outcomes: Iterable[ItemOutcome], *, at: datetime) -> None:
        """Have the results of these items; nothing happens to one that has ended before."""
        for outcome in outcomes:
            if self.is_open and self.state.items[outcome.number] == "running":
                self.record(BatchItemEnded, at=at, outcome=outcome)

    def cancel(self, agent_id: str, *, at: datetime) -> Rejected | None:
        """Start no more items. Safe to repeat."""
        if not self.exists or (agent_id and self.state.agent_id != agent_id):
            return Rejected(code=NOT_FOUND, reason=str(not_found("batch", self.id)["detail"]))
        if self.state.cancelled:
            return None
        if self.state.ended:
            return Rejected(code=CONFLICT, reason=f"{self.id} has ended: nothing is left to cancel")
        self.record(BatchCancelled, at=at, numbers=self.numbers("pending"))
        return None

    def complete(self, *, at: datetime) -> None:
        """End, if every item has ended."""
        if self.is_open and self.is_done:
            self.record(BatchCompleted, at=at, status=self.final_status())

    def give_up(self, reason: str, *, at: datetime) -> None:
        """End as failed: the items that were started for this reason; no others are started."""
        running = self.numbers("running")
        self.end_items(
            [ItemOutcome(number=number, status="failed", reason=reason) for number in running],
            at=at,
        )
        if self.is_open:
            status = self.final_status() if self.state.cancelled else "failed"
            if not self.state.cancelled:
                self.record(BatchCancelled, at=at, numbers=self.numbers("pending"))
            self.record(BatchCompleted, at=at, status=status)

    def note_callback(
        self, outcome: CallbackOutcome, *, attempts: int, sent_at: datetime, at: datetime
    ) -> None:
        """Record what came of telling the client, the last of so many attempts. Nothing happens if
        that many were recorded before."""
        if self.state.ended and attempts > self.state.callback_attempts:
            self.record(
                BatchCallbackAttempted,
                at=at,
                attempts=attempts,
                sent_at=sent_at,
                status_code=outcome.status,
                error=outcome.error_shown,
                next_at=outcome.next_at(attempts, at),
            )

    def final_status(self) -> BatchStatus:
        """The status of a batch at its end: failed only if no item was answered."""
        if self.state.cancelled:
            return "cancelled"
        return "completed" if self.numbers("completed") else "failed"

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        state = self.state
        match event:
            case BatchAccepted():
                state.agent_id, state.at_once, state.keep = (
                    event.agent_id,
                    event.at_once,
                    event.keep,
                )
                state.items = ["pending"] * len(event.items)
                state.agents = [item.run.agent_id for item in event.items]
                state.actor, state.correlation_id = event.actor, event.correlation_id
            case BatchItemsStarted():
                for number in event.numbers:
                    state.items[number] = "running"
            case BatchItemEnded():
                state.items[event.outcome.number] = event.outcome.status
            case BatchCancelled():
                state.cancelled = True
                for number in event.numbers:
                    state.items[number] = "cancelled"
            case BatchCompleted():
                state.ended = True
            case BatchCallbackAttempted():
                state.callback_attempts = event.attempts
