"""Given what happened, when something is decided, then this happens, or a refusal.

given(Block, "block-1", fact(BlockCreated, block=HUMAN)).when(
    lambda block: block.delete(at=NOW)
).then(fact(BlockDeleted))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import LOG_COLUMNS, Event, Rejected

NOW = datetime(2026, 5, 17, 12, 30, 15, 123456, UTC)
LATER = NOW + timedelta(seconds=2)


@dataclass(frozen=True)
class Fact:
    """An event without its place in the log."""

    kind: type[Event]
    fields: dict[str, Any]

    def but(self, **fields: dict[str, Any]) -> Fact:
        """The same with other values inside some of its fields."""
        changed = {name: {**self.fields[name], **inside} for name, inside in fields.items()}
        return Fact(self.kind, {**self.fields, **changed})

    def at(self, aggregate_id: str, version: int = 1, when: datetime = NOW) -> Event:
        """The event at a place in the log."""
        columns = {
            "originator_id": aggregate_id,
            "originator_version": version,
            "timestamp": when,
        }
        return self.kind.model_validate({**self.fields, **columns})


def fact(kind: type[Event], **fields: Any) -> Fact:
    """What happened, or what should."""
    return Fact(kind, fields)


class Given[A: Aggregate[Any]]:
    """An aggregate that was brought to where it is by events as they are stored."""

    def __init__(self, aggregate: A) -> None:
        self.aggregate = aggregate

    def when(self, decide: Callable[[A], Rejected | None]) -> Outcome:
        """Decide something."""
        refused = decide(self.aggregate)
        return Outcome(refused, self.aggregate.take_new_events())


@dataclass(frozen=True)
class Outcome:
    """What came of a decision."""

    refused: Rejected | None
    events: list[Event]

    def then(self, *expected: Fact) -> None:
        """Exactly this happened."""
        assert self.refused is None, self.refused
        assert [(type(event), payload(event)) for event in self.events] == [
            (event.kind, payload(event.at("any"))) for event in expected
        ]

    def then_nothing(self) -> None:
        """It was granted, and nothing had to happen for it."""
        self.then()

    def then_refused(self, code: str, *words: str) -> None:
        """It was refused with this code and a reason that has these words; nothing happened."""
        assert self.events == []
        assert self.refused is not None
        assert self.refused.code == code, self.refused
        for part in words:
            assert part in self.refused.reason


def given[A: Aggregate[Any]](kind: type[A], aggregate_id: str, *past: Fact) -> Given[A]:
    """An aggregate with a past, every event of which went through JSON."""
    aggregate = kind.blank(aggregate_id)
    for version, each_event in enumerate(past, start=1):
        event = each_event.at(aggregate_id, version)
        again = event.model_validate_json(event.model_dump_json())
        assert again == event
        again.mutate(aggregate)
    return Given(aggregate)


def payload(event: Event) -> dict[str, Any]:
    """What an event says."""
    return event.model_dump(exclude=LOG_COLUMNS)
