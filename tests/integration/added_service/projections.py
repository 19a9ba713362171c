"""Events of the counter service as rows."""

from __future__ import annotations

from libs.contracts.bus_messages import Event
from libs.contracts.counter.messages import Counted
from libs.eventstore.read_model_rows import RowWrites, Table

COUNTERS = Table("counters")
READ_MODELS = (COUNTERS,)


def project(event: Event, org: str, rows: RowWrites) -> None:
    """What an event does to the read models."""
    assert isinstance(event, Counted)
    rows.upsert(COUNTERS, {"id": event.originator_id, "org": org, "total": event.total})
