"""Base of every aggregate: a blank state, events that evolve it, nothing else.

An aggregate of version 0 does not exist yet. Its state is one pydantic model, so a snapshot is the
state as JSON. A snapshot is read only by code whose state has the same form and meaning.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from functools import cache
from typing import Any, ClassVar, Self

from eventsourcing.domain import BaseAggregate
from pydantic import BaseModel

from libs.contracts.bus_messages import Event, Json

SNAPSHOT_EVERY_EVENTS = 100
NEVER = datetime.fromtimestamp(0, UTC)


class Aggregate[S: BaseModel](BaseAggregate[str]):
    """One consistency boundary. Subclasses name their `State`, and evolve it in `when`."""

    State: ClassVar[type[BaseModel]]
    # The events that it may begin with anew after it was deleted, if it may at all.
    begins_with: ClassVar[tuple[type[Event], ...]] = ()
    # Raise it when the same events make another state of the same form: see `state_version`.
    state_revision: ClassVar[int] = 1
    state: S
    # The organisation that wrote its first event. Empty before that event; never changed after.
    org: str
    # The version of the newest snapshot that is known, 0 if there is none that can be read.
    snapshot_version: int
    # The size of the payloads that its state was made from: its weight in a cache.
    payload_bytes: int

    @classmethod
    def blank(
        cls, aggregate_id: str, *, version: int = 0, state: Any = None, org: str = ""
    ) -> Self:
        """The aggregate before its first event, or as a snapshot (`state`, `version`) says."""
        aggregate = cls.__new__(cls)
        aggregate.__base_init__(aggregate_id, version, NEVER)
        aggregate.payload_bytes = 0
        aggregate.org = org
        aggregate.snapshot_version = version
        aggregate.state = cls.State.model_validate(state or {})  # type: ignore[assignment]
        return aggregate

    @classmethod
    @cache
    def state_version(cls) -> str:
        """The version of the state: its revision, and a digest of the model's JSON schema.

        Any change of a field, a type or a default changes the digest. A change of meaning alone
        has to raise `state_revision`."""
        form = json.dumps(without_prose(cls.State.model_json_schema(by_alias=False)))
        return f"{cls.state_revision}.{hashlib.sha256(form.encode()).hexdigest()[:16]}"

    @property
    def snapshot_every_events(self) -> int:
        """After how many events a snapshot is worth its cost."""
        return SNAPSHOT_EVERY_EVENTS

    @property
    def exists(self) -> bool:
        """Whether the aggregate has any event."""
        return self.version > 0

    @property
    def deleted(self) -> bool:
        """Whether the aggregate was deleted. The cache need not keep it."""
        return False

    def record[E: Event](self, event: type[E], *, at: datetime, **fields: Any) -> None:
        """Add an event to this aggregate and let it evolve the state."""
        self.trigger_event(event, timestamp=at, **fields)

    def append_past(self, event: Event) -> None:
        """Add an event that happened elsewhere, and let it evolve the state. Raises whatever `when`
        does if it cannot have happened to this aggregate."""
        event.mutate(self)
        self.pending_events.append(event)

    def begin_again(self) -> None:
        """Forget everything: it was deleted, and what happens now is the first of another life."""
        self.state = self.State()  # type: ignore[assignment]

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        raise NotImplementedError

    def take_new_events(self) -> list[Event]:
        """The events recorded since the last call, to be committed; a second call gives none."""
        return list(self.collect_events())  # type: ignore[arg-type]


def without_prose(schema: Json) -> Json:
    """A JSON schema without its titles and descriptions. A property of that name stays: its value
    is a schema, not a text."""
    match schema:
        case dict():
            return {
                name: without_prose(value)
                for name, value in sorted(schema.items())
                if not (name in ("title", "description") and isinstance(value, str))
            }
        case list():
            return [without_prose(value) for value in schema]
    return schema
