"""Stored events as today's classes read them, and aggregates made from them."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json

from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import EVENTS, Event, JsonObject, NewerVersion
from libs.eventstore.ports import ERASED, History, StoredEvent

ADDITIVE = "additive"  # in the metadata of an event: who does not know it may leave it out


def replay[A: Aggregate[Any]](
    service: str, kind: type[A], aggregate_id: str, history: History, base: A | None = None
) -> A:
    """Bring an aggregate up to date with what the store knows that `base` does not."""
    if history.snapshot is not None:
        base = kind.blank(
            aggregate_id,
            version=history.snapshot.version,
            state=history.snapshot.state,
            org=history.snapshot.org,
        )
        base.payload_bytes = len(to_json(history.snapshot.state))
    aggregate = base if base is not None else kind.blank(aggregate_id)
    for stored in history.events:
        unknown = f"{service}.{stored.topic}" not in EVENTS
        if ERASED in stored.metadata or (unknown and stored.metadata.get(ADDITIVE)):
            aggregate.version = stored.version
        else:
            event_of(service, stored).mutate(aggregate)
        aggregate.org = aggregate.org or stored.org
        aggregate.payload_bytes += stored.payload_bytes
    return aggregate


class UnknownEvent(NewerVersion):
    """An event of a topic, or of a version of it, that this process does not know."""


def event_of(service: str, stored: StoredEvent, payload: JsonObject | None = None) -> Event:
    """The event as today's class reads it, older payloads brought up to date; `payload` is that of
    an event that is not stored yet. Raises UnknownEvent for one that only newer processes can read:
    whoever does not know what has happened to an aggregate must not decide about it."""
    name = f"{service}.{stored.topic}"
    kind = EVENTS.get(name)
    if kind is None or stored.schema_version > kind.schema_version:
        raise UnknownEvent(f"{name} version {stored.schema_version}")
    payload = stored.payload if payload is None else payload
    if stored.schema_version < kind.schema_version:
        payload = kind.upcast(payload, stored.schema_version)
    return kind.model_validate(
        {
            **payload,
            "originator_id": stored.aggregate_id,
            "originator_version": stored.version,
            "timestamp": stored.occurred_at,
        }
    )
