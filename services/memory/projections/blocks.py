"""Memory blocks as rows."""

from __future__ import annotations

from libs.contracts.bus_messages import Event, JsonObject
from libs.contracts.letta.blocks import block_state
from libs.contracts.memory.blocks import BlockChanged, BlockCreated, BlockDeleted
from libs.eventstore.read_model_rows import RowWrites
from services.memory.projections.tables import BLOCKS


def project_block(event: Event, org: str, rows: RowWrites) -> None:
    """Write an event's changes to the row of a block."""
    match event:
        case BlockCreated():
            state = block_state(event.block)
            metadata = state.pop("metadata")
            rows.upsert(
                BLOCKS,
                {
                    "id": event.originator_id,
                    "org": org,
                    "created_at": event.timestamp.isoformat(),
                    "version": event.originator_version,
                    "label": event.block.label,
                    "fields": state,
                    "metadata": metadata,
                    "changed_by": None,
                },
            )
        case BlockChanged(changes=changes):
            fields: JsonObject = {
                "id": event.originator_id,
                "version": event.originator_version,
                "changed_by": event.cause.agent_id if event.cause else None,
                "fields": {name: value for name, value in changes.items() if name != "metadata"},
                **{name: changes[name] for name in ("label", "metadata") if name in changes},
            }
            rows.patch(BLOCKS, fields)
        case BlockDeleted():
            rows.delete(BLOCKS, "id", event.originator_id)
