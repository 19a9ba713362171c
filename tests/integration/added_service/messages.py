"""The messages of the counter service."""

from __future__ import annotations

from libs.contracts.bus_messages import Command, Event


class Count(Command, service="counter", topic="counter.count"):
    """Count one more."""

    counter_id: str

    @property
    def target(self) -> str:
        return self.counter_id


class Counted(Event, service="counter", topic="counter.counted"):
    """One more was counted."""

    total: int
