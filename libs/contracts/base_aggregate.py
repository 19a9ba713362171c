"""What every aggregate is made of: a blank state, events that evolve it, nothing else.

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
    """One consistency boundary. Subclasses name their `State` and say `when` each event happens.

    `payload_bytes` is how large the payloads are that it was made from: what it holds, or more.
    """

    State: ClassVar[type[BaseModel]]
    # Raise it when the same events make another state of the same form: see `state_version`.
    state_revision: ClassVar[int] = 1
    state: S
    # Whose it is: of whoever wrote its first event, for ever. Empty while there is none.
    org: str
    # The version of the newest snapshot that is known, 0 if there is none that can be read.
    snapshot_version: int
    # About how much JSON its state was made from: what it weighs in a cache.
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
        """Which form and meaning the state has: a digest of its fields, their types and defaults,
        with all that is in them, so that no change of form can be forgotten; and the revision that
        a change of meaning has to raise."""
        form = json.dumps(without_prose(cls.State.model_json_schema(by_alias=False)))
        return f"{cls.state_revision}.{hashlib.sha256(form.encode()).hexdigest()[:16]}"

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


def without_prose(schema: Json) -> Json:
    """A JSON schema without its titles and descriptions, which say nothing of the form. They are
    texts; a property of such a name is a schema, and stays."""
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
