"""Commands about the tools of agents: load, decide, save, reply."""

from __future__ import annotations

from collections.abc import Mapping

from libs.bus.command_dispatcher import Handler
from libs.contracts.agent_tools import AttachTool, DetachTool
from libs.contracts.bus_messages import Accepted, Command, Rejected
from libs.eventstore.unit_of_work import UnitOfWork
from services.agent.domain.agent import Agent
from services.agent.domain.agent_tools import attach, detach
from services.agent.domain.tools.custom_tools import custom_ids
from services.agent.handlers.dependencies import HandlerDependencies


class AgentToolHandlers:
    """Gives agents tools, and takes them away."""

    def __init__(self, ports: HandlerDependencies) -> None:
        self.ports = ports

    def table(self) -> Mapping[type[Command], Handler]:
        """Which command goes where."""
        return {AttachTool: self.attach_tool, DetachTool: self.detach_tool}

    async def attach_tool(self, command: AttachTool, work: UnitOfWork) -> Accepted | Rejected:
        """Let an agent have a tool."""
        agent = await work.load(Agent, command.agent_id)
        held = agent.design.tool_ids if agent.design else []
        ids = custom_ids([*held, command.tool_id])
        custom = await self.ports.queries.custom_tools(work.context.org, ids) if ids else []
        return attach(agent, command.tool_id, custom, at=self.ports.clock.now()) or Accepted()

    async def detach_tool(self, command: DetachTool, work: UnitOfWork) -> Accepted | Rejected:
        """Take a tool from an agent."""
        agent = await work.load(Agent, command.agent_id)
        return detach(agent, command.tool_id, at=self.ports.clock.now()) or Accepted()
