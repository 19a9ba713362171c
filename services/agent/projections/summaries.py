"""Summaries of an agent's messages as rows."""

from __future__ import annotations

from libs.contracts.agent.summaries import (
    SummariesDeleted,
    SummaryArchived,
    SummaryEvent,
    SummaryFailed,
    SummaryNotArchived,
    SummaryPartWritten,
    SummaryRequested,
    SummaryWritten,
)
from libs.contracts.bus_messages import JsonObject
from libs.eventstore.read_model_rows import RowWrites
from services.agent.domain.runs.step_results import error_fields
from services.agent.projections.tables import SUMMARIES


def project_summary(event: SummaryEvent | SummariesDeleted, org: str, rows: RowWrites) -> None:
    """Write an event's changes to the rows of summaries."""
    match event:
        case SummaryRequested():
            rows.upsert(SUMMARIES, summary_row(event, org))
        case SummaryPartWritten():
            patch(rows, event, {"parts": {"level": event.level, "covered": event.covered}})
        case SummaryWritten():
            written: JsonObject = {
                "summary": event.text.replace("\x00", ""),
                "model": event.model,
                "usage": event.usage.model_dump(mode="json"),
            }
            patch(rows, event, written)
        case SummaryFailed():
            failed: JsonObject = {"status": "failed", "error": error_fields(event)}
            rows.patch(SUMMARIES, {"id": event.summary_id, **failed})
        case SummaryArchived():
            fields: JsonObject = {"archival_passage_id": event.passage_id}
            patch(rows, event, fields, status="completed")
        case SummaryNotArchived():
            patch(rows, event, {"archival_error": event.reason}, status="completed")
        case SummariesDeleted():
            rows.delete(SUMMARIES, "summaries_id", event.originator_id)


def patch(rows: RowWrites, event: SummaryEvent, fields: JsonObject, **columns: str) -> None:
    """Change some fields of a summary, and some columns of its row."""
    rows.patch(SUMMARIES, {"id": event.summary_id, "fields": fields, **columns})


def summary_row(event: SummaryRequested, org: str) -> JsonObject:
    """A summary that is to be written."""
    return {
        "id": event.summary_id,
        "org": org,
        "agent_id": event.agent_id,
        "summaries_id": event.originator_id,
        "created_at": event.timestamp.isoformat(),
        "status": "running",
        "error": None,
        "fields": {
            "id": event.summary_id,
            "agent_id": event.agent_id,
            "conversation_id": event.messages.conversation_id,
            "created_at": event.timestamp.isoformat(),
            "summary": None,
            "summary_length": event.summary_length,
            "message_count": event.messages.count,
            "start": event.messages.start.isoformat(),
            "end": event.messages.end.isoformat(),
            "save_to_archival": event.save_to_archival,
            "archival_passage_id": None,
            "archival_error": None,
            "model": None,
            "usage": None,
        },
    }
