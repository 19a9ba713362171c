"""The messages of the counter service."""

from __future__ import annotations

from typing import ClassVar

from libs.contracts.bus_messages import Command, Event


class Count(Command):
    """Count one more."""

    service: ClassVar[str] = "counter"
    topic: ClassVar[str] = "counter.count"
    counter_id: str

    @property
    def target(self) -> str:
        return self.counter_id


class Counted(Event):
    """One more was counted."""

    service: ClassVar[str] = "counter"
    topic: ClassVar[str] = "counter.counted"
    total: int
