"""Attachments as rows."""

from __future__ import annotations

from libs.contracts.api.attachments import AttachmentMade, AttachmentRemoved
from libs.contracts.bus_messages import Event
from libs.eventstore.read_model_rows import RowWrites
from services.api.projections.tables import ATTACHMENTS


def project_attachment(event: Event, org: str, rows: RowWrites) -> None:
    """Write an event's changes to the row of an attachment."""
    match event:
        case AttachmentMade():
            rows.upsert(
                ATTACHMENTS,
                {
                    "id": event.originator_id,
                    "org": org,
                    "owner_id": event.owner_id,
                    "target_id": event.target_id,
                    "created_at": event.timestamp.isoformat(),
                },
            )
        case AttachmentRemoved():
            rows.delete(ATTACHMENTS, "id", event.originator_id)
