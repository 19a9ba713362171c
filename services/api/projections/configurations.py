"""Files of agents as rows: the last one that was applied, and one that was rejected since."""

from __future__ import annotations

from libs.contracts.api.configurations import (
    ConfigurationApplied,
    ConfigurationDeleted,
    ConfigurationEvent,
    ConfigurationRejected,
)
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.agent_state import timestamp
from libs.eventstore.read_model_rows import RowWrites
from services.api.projections.tables import CONFIGURATIONS


def project_configuration(event: ConfigurationEvent, org: str, rows: RowWrites) -> None:
    """Write an event's changes to the row of an agent's file. The first event makes the row; later
    ones change their part of it."""
    named: JsonObject = {"id": event.originator_id}
    match event:
        case ConfigurationApplied():
            shown: JsonObject = {"applied": document_of(event), "rejected": None}
        case ConfigurationRejected():
            shown = {"rejected": document_of(event)}
        case ConfigurationDeleted():
            rows.delete(CONFIGURATIONS, "id", event.originator_id)
            return
    if event.originator_version == 1:
        first: JsonObject = {"org": org, "agent_id": event.agent_id, "applied": None}
        rows.upsert(CONFIGURATIONS, {**named, **first, **shown})
    else:
        rows.patch(CONFIGURATIONS, {**named, **shown})


def document_of(event: ConfigurationApplied | ConfigurationRejected) -> JsonObject:
    """The document of a report, as clients read it."""
    shown = event.configuration.model_dump(mode="json", exclude={"status"})
    return {**shown, "at": timestamp(event.timestamp)}
