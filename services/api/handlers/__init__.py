"""Commands to the api, a module for each kind of thing that they are about. Requests over HTTP
reach the api's own aggregates as they reach those of other services: by commands."""

from __future__ import annotations

from collections.abc import Mapping

from libs.bus.command_dispatcher import Handler
from libs.contracts.bus_messages import Command
from services.api.engine.fleet_applies import FleetApplies
from services.api.engine.imports import Imports
from services.api.engine.restores import Restores
from services.api.handlers.attachments import AttachmentHandlers
from services.api.handlers.configurations import ConfigurationHandlers
from services.api.handlers.fleets import FleetHandlers
from services.api.handlers.identities import IdentityHandlers
from services.api.handlers.imports import ImportHandlers
from services.api.handlers.ports import HandlerPorts
from services.api.handlers.projects import ProjectHandlers
from services.api.handlers.restores import RestoreHandlers
from services.api.handlers.templates import DeploymentHandlers, TemplateHandlers


class Handlers:
    """The handlers of all commands to the api."""

    def __init__(
        self, ports: HandlerPorts, imports: Imports, restores: Restores, applies: FleetApplies
    ) -> None:
        self.attachments = AttachmentHandlers(ports)
        self.identities = IdentityHandlers(ports, self.attachments)
        self.configurations = ConfigurationHandlers(ports)
        self.projects = ProjectHandlers(ports, self.attachments)
        self.templates = TemplateHandlers(ports)
        self.deployments = DeploymentHandlers(ports)
        self.imports = ImportHandlers(ports, imports)
        self.restores = RestoreHandlers(ports, restores)
        self.fleets = FleetHandlers(ports, applies)

    def table(self) -> Mapping[type[Command], Handler]:
        """The handler of each command."""
        return {
            kind: handle
            for handlers in vars(self).values()
            for kind, handle in handlers.table().items()
        }
