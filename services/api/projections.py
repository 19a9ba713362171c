"""Events of the api as rows: it has no aggregates of its own yet, so there are none."""

from __future__ import annotations

from libs.contracts.bus_messages import Event
from libs.eventstore.read_model_rows import RowWrites, Table

READ_MODELS: tuple[Table, ...] = ()


def project(event: Event, org: str, rows: RowWrites) -> None:
    """What an event does to the read models. Raises AssertionError: nothing has happened yet."""
    raise AssertionError(f"the api has no events, and so no {event.topic}")
