"""Events of the api as rows, a module for each read model."""

from __future__ import annotations

from libs.contracts.api.attachments import AttachmentMade, AttachmentRemoved
from libs.contracts.api.configurations import ConfigurationEvent
from libs.contracts.api.deployments import (
    DeploymentCompleted,
    DeploymentEnded,
    DeploymentRefused,
    DeploymentStarted,
    DeploymentUndone,
    MigrationEnded,
    MigrationStarted,
)
from libs.contracts.api.fleets import FleetEvent
from libs.contracts.api.identities import IdentityChanged, IdentityCreated, IdentityDeleted
from libs.contracts.api.imports import ImportEvent
from libs.contracts.api.projects import (
    ProjectChanged,
    ProjectCreated,
    ProjectDeleted,
    ProjectEmptied,
)
from libs.contracts.api.restores import RestoreEvent
from libs.contracts.api.templates import (
    TemplateChanged,
    TemplateCreated,
    TemplateDeleted,
    TemplateRenamed,
    TemplateVersionSaved,
)
from libs.contracts.bus_messages import Event
from libs.eventstore.read_model_rows import RowWrites
from services.api.projections.attachments import project_attachment
from services.api.projections.configurations import project_configuration
from services.api.projections.fleets import project_fleet
from services.api.projections.identities import project_identity
from services.api.projections.imports import project_import
from services.api.projections.projects import project_project
from services.api.projections.restores import project_restore
from services.api.projections.tables import READ_MODELS
from services.api.projections.templates import project_deployment, project_template

__all__ = ["READ_MODELS", "project"]


def project(event: Event, org: str, rows: RowWrites) -> None:
    """Write what an event of an organisation changes in the read models."""
    match event:
        case IdentityCreated() | IdentityChanged() | IdentityDeleted():
            project_identity(event, org, rows)
        case AttachmentMade() | AttachmentRemoved():
            project_attachment(event, org, rows)
        case ProjectCreated() | ProjectChanged() | ProjectDeleted() | ProjectEmptied():
            project_project(event, org, rows)
        case (
            TemplateCreated() | TemplateChanged() | TemplateVersionSaved() | TemplateRenamed()
            | TemplateDeleted()
        ):  # fmt: skip
            project_template(event, org, rows)
        case (
            DeploymentStarted() | DeploymentCompleted() | DeploymentRefused() | DeploymentUndone()
            | MigrationStarted() | MigrationEnded() | DeploymentEnded()
        ):  # fmt: skip
            project_deployment(event, org, rows)
        case ImportEvent():
            project_import(event, org, rows)
        case RestoreEvent():
            project_restore(event, org, rows)
        case ConfigurationEvent():
            project_configuration(event, org, rows)
        case FleetEvent():
            project_fleet(event, org, rows)
