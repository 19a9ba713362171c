"""Calls that wait for the client, as rows."""

from __future__ import annotations

from libs.contracts.agent.approvals import ApprovalAnswered, ApprovalEnded, ApprovalRequested
from libs.eventstore.read_model_rows import RowWrites
from services.agent.projections.tables import APPROVALS


def project_approval(
    event: ApprovalRequested | ApprovalAnswered | ApprovalEnded, org: str, rows: RowWrites
) -> None:
    """A conversation waits for its client, until all that it was asked is answered."""
    match event:
        case ApprovalRequested():
            rows.upsert(
                APPROVALS,
                {
                    "conversation_id": event.originator_id,
                    "org": org,
                    "agent_id": event.agent_id,
                    "message_id": event.message_id,
                    "requested_at": event.timestamp.isoformat(),
                },
            )
        case ApprovalAnswered(waiting=[_, *_]):
            pass
        case _:
            rows.delete(APPROVALS, "conversation_id", event.originator_id)
