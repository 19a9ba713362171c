"""What every aggregate is made of: a blank state, events that evolve it, nothing else.

An aggregate of version 0 does not exist yet. Its state is one pydantic model, so a snapshot is the
state as JSON and an older snapshot is read with the defaults of the fields it lacks.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, ClassVar, Self

from eventsourcing.domain import BaseAggregate
from pydantic import BaseModel

from libs.contracts.message import Event

SNAPSHOT_EVERY_EVENTS = 100
NEVER = datetime.fromtimestamp(0, UTC)


class Aggregate[S: BaseModel](BaseAggregate[str]):
    """One consistency boundary. Subclasses name their `State` and say `when` each event happens.

    `payload_bytes` is how large the payloads are that it was made from: what it holds, or more.
    """

    State: ClassVar[type[BaseModel]]
    state: S
    # About how much JSON its state was made from: what it weighs in a cache.
    payload_bytes: int

    @classmethod
    def blank(cls, aggregate_id: str, *, version: int = 0, state: Any = None) -> Self:
        """The aggregate before its first event, or as a snapshot (`state`, `version`) says."""
        aggregate = cls.__new__(cls)
        aggregate.__base_init__(aggregate_id, version, NEVER)
        aggregate.payload_bytes = 0
        aggregate.state = cls.State.model_validate(state or {})  # type: ignore[assignment]
        return aggregate

    @property
    def snapshot_every_events(self) -> int:
        """After how many events a snapshot is worth its cost."""
        return SNAPSHOT_EVERY_EVENTS

    @property
    def exists(self) -> bool:
        """Whether anything ever happened to it."""
        return self.version > 0

    @property
    def deleted(self) -> bool:
        """Whether it has stopped existing: nobody will ask for it often any more."""
        return False

    def happened[E: Event](self, event: type[E], *, at: datetime, **fields: Any) -> None:
        """Record an event as the next of this aggregate and let it evolve the state."""
        self.trigger_event(event, timestamp=at, **fields)

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        raise NotImplementedError

    def collected(self) -> list[Event]:
        """The events since the last call, to be committed."""
        return list(self.collect_events())  # type: ignore[arg-type]
