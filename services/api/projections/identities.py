"""Identities as rows."""

from __future__ import annotations

from libs.contracts.api.identities import IdentityChanged, IdentityCreated, IdentityDeleted
from libs.contracts.bus_messages import Event
from libs.eventstore.read_model_rows import RowWrites
from services.api.projections.tables import IDENTITIES


def project_identity(event: Event, org: str, rows: RowWrites) -> None:
    """Write an event's changes to the row of an identity."""
    match event:
        case IdentityCreated():
            columns = event.identity.model_dump(mode="json", exclude={"organization_id"})
            at = event.timestamp.isoformat()
            rows.upsert(IDENTITIES, {**columns, "org": org, "created_at": at})
        case IdentityChanged():
            rows.patch(IDENTITIES, {"id": event.originator_id, **event.changes})
        case IdentityDeleted():
            rows.delete(IDENTITIES, "id", event.originator_id)
