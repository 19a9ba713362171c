"""Events of the api as rows, a module for each read model."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from libs.contracts.bus_messages import Event
from libs.eventstore.read_model_rows import RowWrites, Table

READ_MODELS: tuple[Table, ...] = ()
# What writes the rows of each event: nothing so far, since the api owns no aggregates.
PROJECTORS: Mapping[type[Event], Callable[[Event, str, RowWrites], None]] = {}


def project(event: Event, org: str, rows: RowWrites) -> None:
    """Write what an event of an organisation changes in the read models. Raises KeyError for an
    event that has no projector."""
    PROJECTORS[type(event)](event, org, rows)
