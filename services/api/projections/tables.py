"""The read-model tables of the api."""

from __future__ import annotations

from libs.eventstore.read_model_rows import Table

IDENTITIES = Table("identities")
ATTACHMENTS = Table("attachments")
PROJECTS = Table("projects")
PROJECT_REMOVALS = Table("project_removals")
IMPORTS = Table("imports")
TEMPLATES = Table("templates")
TEMPLATE_VERSIONS = Table("template_versions", aggregate="template_id")
DEPLOYMENTS = Table("deployments")
RESTORES = Table("restores", aggregate="restores_id")
CONFIGURATIONS = Table("configurations")
FLEETS = Table("fleets")
FLEET_MEMBERS = Table("fleet_members", aggregate="fleet_id")
FLEET_APPLIES = Table("fleet_applies", aggregate="fleet_id")
FLEET_UNITS = Table("fleet_units", aggregate="fleet_id")
READ_MODELS: tuple[Table, ...] = (
    IDENTITIES,
    ATTACHMENTS,
    PROJECTS,
    PROJECT_REMOVALS,
    TEMPLATES,
    TEMPLATE_VERSIONS,
    DEPLOYMENTS,
    IMPORTS,
    RESTORES,
    CONFIGURATIONS,
    FLEETS,
    FLEET_MEMBERS,
    FLEET_APPLIES,
    FLEET_UNITS,
)
