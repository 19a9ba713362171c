"""Commands about the files that describe agents: load, decide, save, reply."""

from __future__ import annotations

from collections.abc import Mapping

from libs.bus.command_dispatcher import Handler
from libs.contracts.api.configurations import DeleteConfiguration, ReportConfiguration
from libs.contracts.bus_messages import Accepted, Command
from libs.eventstore.unit_of_work import UnitOfWork
from services.api.domain.configuration import Configuration
from services.api.handlers.ports import HandlerPorts, Reply


class ConfigurationHandlers:
    """Records what became of the files of agents."""

    def __init__(self, ports: HandlerPorts) -> None:
        self.ports = ports

    def table(self) -> Mapping[type[Command], Handler]:
        """The handler of each command."""
        return {
            ReportConfiguration: self.report_configuration,
            DeleteConfiguration: self.delete_configuration,
        }

    async def report_configuration(self, command: ReportConfiguration, work: UnitOfWork) -> Reply:
        """Record what became of the file of an agent."""
        known = await work.load(Configuration, command.target)
        at = self.ports.clock.now()
        return known.report(command.agent_id, command.configuration, at=at) or Accepted()

    async def delete_configuration(self, command: DeleteConfiguration, work: UnitOfWork) -> Reply:
        """Forget the file of an agent that was deleted."""
        known = await work.load(Configuration, command.target)
        return known.delete(command.agent_id, at=self.ports.clock.now()) or Accepted()
