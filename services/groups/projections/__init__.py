"""Events of the groups service as rows."""

from __future__ import annotations

from libs.contracts.bus_messages import Event
from libs.eventstore.read_model_rows import RowWrites, Table
from services.groups.projections.groups import GROUP_TABLES, project_group

READ_MODELS: tuple[Table, ...] = (*GROUP_TABLES,)


def project(event: Event, org: str, rows: RowWrites) -> None:
    """What an event does to the read models."""
    project_group(event, org, rows)
