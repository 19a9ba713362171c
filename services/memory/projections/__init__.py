"""Events of the memory service as rows that clients and other services read."""

from __future__ import annotations

from libs.contracts.bus_messages import Event
from libs.contracts.memory import BlockChanged, BlockCreated, BlockDeleted
from libs.eventstore.read_model_rows import RowWrites
from services.memory.projections.blocks import project_block
from services.memory.projections.tables import READ_MODELS

__all__ = ["READ_MODELS", "project"]


def project(event: Event, org: str, rows: RowWrites) -> None:
    """What an event does to the read models."""
    match event:
        case BlockCreated() | BlockChanged() | BlockDeleted():
            project_block(event, org, rows)
