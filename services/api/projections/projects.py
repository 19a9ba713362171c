"""Projects as rows."""

from __future__ import annotations

from libs.contracts.api.projects import (
    ProjectChanged,
    ProjectCreated,
    ProjectDeleted,
    ProjectEmptied,
)
from libs.contracts.bus_messages import Event
from libs.eventstore.read_model_rows import RowWrites
from services.api.projections.tables import PROJECT_REMOVALS, PROJECTS


def project_project(event: Event, org: str, rows: RowWrites) -> None:
    """Write an event's changes to the row of a project."""
    project_id, at = event.originator_id, event.timestamp.isoformat()
    match event:
        case ProjectCreated():
            columns = event.project.model_dump(mode="json", exclude={"organization_id"})
            rows.upsert(PROJECTS, {**columns, "org": org, "created_at": at, "updated_at": at})
        case ProjectChanged():
            rows.patch(PROJECTS, {"id": project_id, **event.changes, "updated_at": at})
        case ProjectDeleted():
            rows.delete(PROJECTS, "id", project_id)
            rows.upsert(
                PROJECT_REMOVALS,
                {
                    "id": project_id,
                    "org": org,
                    "deleted_at": at,
                    "agent_ids": [*event.cascaded_agent_ids],
                },
            )
        case ProjectEmptied():
            rows.delete(PROJECT_REMOVALS, "id", project_id)
