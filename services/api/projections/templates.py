"""Templates, their versions and their deployments as rows."""

from __future__ import annotations

from libs.contracts.api.deployments import (
    DeploymentCompleted,
    DeploymentEnded,
    DeploymentRefused,
    DeploymentStarted,
    DeploymentUndone,
    MigrationEnded,
    MigrationStarted,
)
from libs.contracts.api.templates import (
    TemplateChanged,
    TemplateCreated,
    TemplateDeleted,
    TemplateRenamed,
    TemplateVersionSaved,
    version_id,
)
from libs.contracts.bus_messages import Event, JsonObject
from libs.eventstore.read_model_rows import RowWrites
from services.api.projections.tables import DEPLOYMENTS, TEMPLATE_VERSIONS, TEMPLATES


def project_template(event: Event, org: str, rows: RowWrites) -> None:
    """Write an event's changes to the rows of a template."""
    template_id, at = event.originator_id, event.timestamp.isoformat()
    changes: JsonObject = {"id": template_id, "updated_at": at}
    match event:
        case TemplateCreated():
            columns = event.model_dump(mode="json", include={"project_id", "name", "description"})
            own: JsonObject = {"org": org, "created_at": at, "latest_version": 0, "migrating_to": 0}
            content: JsonObject = {"content": event.content.model_dump(mode="json")}
            rows.upsert(TEMPLATES, {**changes, **columns, **own, **content})
        case TemplateChanged():
            rows.patch(TEMPLATES, {**changes, "content": event.content.model_dump(mode="json")})
        case TemplateVersionSaved():
            if event.migration is not None:
                changes["migrating_to"] = event.number
            rows.patch(TEMPLATES, {**changes, "latest_version": event.number})
            rows.upsert(TEMPLATE_VERSIONS, version_row(event, org))
        case TemplateRenamed():
            renamed: JsonObject = {"name": event.name, "description": event.description}
            rows.patch(TEMPLATES, {**changes, **renamed})
        case TemplateDeleted():
            rows.delete(TEMPLATES, "id", template_id)
            rows.delete(TEMPLATE_VERSIONS, "template_id", template_id)


def version_row(event: TemplateVersionSaved, org: str) -> JsonObject:
    """The row of a saved version."""
    return {
        "id": version_id(event.originator_id, event.number),
        "template_id": event.originator_id,
        "org": org,
        "number": event.number,
        "message": event.message,
        "created_at": event.timestamp.isoformat(),
        "content": event.content.model_dump(mode="json"),
    }


def project_deployment(event: Event, org: str, rows: RowWrites) -> None:
    """Write an event's changes to the row of a deployment."""
    changes: JsonObject = {"id": event.originator_id}
    match event:
        case DeploymentStarted():
            own: JsonObject = {"org": org, "created_at": event.timestamp.isoformat()}
            origin: JsonObject = {"template_id": event.template_id, "version": event.version}
            started: JsonObject = {
                "status": "started",
                "agent_ids": [],
                "follows_after": event.follows_after,
            }
            rows.upsert(DEPLOYMENTS, {**changes, **own, **origin, **started})
        case DeploymentCompleted():
            made: JsonObject = {"agent_ids": [*event.agent_ids], "group_id": event.group_id}
            rows.patch(DEPLOYMENTS, {**changes, **made, "status": "completed"})
        case DeploymentRefused():
            why: JsonObject = {"refused_code": event.code, "refused_reason": event.reason}
            rows.patch(DEPLOYMENTS, {**changes, **why, "status": "undoing"})
        case DeploymentUndone():
            rows.patch(DEPLOYMENTS, {**changes, "status": "undone"})
        case MigrationStarted():
            rows.patch(DEPLOYMENTS, {**changes, "status": "migrating"})
        case MigrationEnded():
            refused = "; ".join(event.refused) or None
            ended: JsonObject = {"status": "completed", "version": event.version}
            after: JsonObject = {"follows_after": event.follows_after}
            rows.patch(DEPLOYMENTS, {**changes, **ended, **after, "refused_reason": refused})
        case DeploymentEnded():
            rows.delete(DEPLOYMENTS, "id", event.originator_id)
