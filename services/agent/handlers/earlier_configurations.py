"""The command that brings an earlier configuration of an agent back: load, decide, save, reply."""

from __future__ import annotations

from collections.abc import Mapping

from libs.bus.command_dispatcher import Handler
from libs.contracts.agent.agents import RestoreConfiguration
from libs.contracts.bus_messages import Accepted, Command, Rejected
from libs.eventstore.unit_of_work import UnitOfWork
from services.agent.domain.agents.agent import Agent, missing
from services.agent.domain.agents.earlier_configuration import no_version, restore_configuration
from services.agent.domain.tools.custom_tools import custom_ids
from services.agent.handlers.ports import HandlerPorts


class EarlierConfigurationHandlers:
    """Restores configurations of agents."""

    def __init__(self, ports: HandlerPorts) -> None:
        self.ports = ports

    def table(self) -> Mapping[type[Command], Handler]:
        """The command of these handlers, with its method."""
        return {RestoreConfiguration: self.restore_configuration}

    async def restore_configuration(
        self, command: RestoreConfiguration, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Give an agent the configuration of an earlier version."""
        agent, org = await work.load(Agent, command.agent_id), work.context.org
        if agent.design is None:
            return missing(agent.id)
        past = await self.ports.queries.configuration_at(org, agent.id, command.version)
        if past is None:
            return no_version(agent.id, command.version)
        custom = await self.ports.queries.custom_tools(org, custom_ids(past.tool_ids))
        restore_configuration(
            agent,
            past,
            custom,
            actor=work.context.actor,
            version=command.version,
            at=self.ports.clock.now(),
        )
        return Accepted()
