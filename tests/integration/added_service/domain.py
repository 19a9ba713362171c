"""A counter."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel

from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import Event
from libs.contracts.counter.messages import Counted


class CounterState(BaseModel):
    """How much was counted."""

    total: int = 0


class Counter(Aggregate[CounterState]):
    """One counter."""

    State = CounterState

    def count(self, *, at: datetime) -> None:
        """Add one to the total."""
        self.record(Counted, at=at, total=self.state.total + 1)

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        assert isinstance(event, Counted)
        self.state.total = event.total
