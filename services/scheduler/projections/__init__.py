"""Events of the scheduler service as rows."""

from __future__ import annotations

from libs.contracts.bus_messages import Event
from libs.eventstore.read_model_rows import RowWrites, Table

READ_MODELS: tuple[Table, ...] = ()


def project(event: Event, org: str, rows: RowWrites) -> None:
    """What an event does to the read models."""
