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
)
