"""Ports of the api's handlers."""

from __future__ import annotations

from dataclasses import dataclass

from libs.bus.ports import Clock
from libs.contracts.bus_messages import Accepted, Rejected
from services.api.adapters.agents.attachment_queries import AttachmentQueries
from services.api.adapters.agents.project_queries import ProjectQueries
from services.api.adapters.templates.template_queries import TemplateQueries
from services.api.engine.deployments import Deployments

type Reply = Accepted | Rejected


@dataclass(slots=True, kw_only=True)
class HandlerPorts:
    """The ports that a handler may use."""

    clock: Clock
    attachments: AttachmentQueries
    projects: ProjectQueries
    templates: TemplateQueries
    deployments: Deployments
