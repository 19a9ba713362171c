"""Commands about the tools of agents: load, decide, save, reply."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic_core import to_json

from libs.bus.command_dispatcher import Handler
from libs.contracts.agent.agent_tools import CALLABLE_ALONE, AttachTool, CallTool, DetachTool
from libs.contracts.agent.conversations import ToolCall
from libs.contracts.bus_messages import INVALID, Accepted, Command, Rejected
from libs.eventstore.unit_of_work import UnitOfWork
from services.agent.domain.agents.agent import Agent, missing
from services.agent.domain.agents.agent_tools import attach, detach
from services.agent.domain.tools.custom_tools import custom_ids
from services.agent.handlers.ports import HandlerPorts


class AgentToolHandlers:
    """Gives agents tools, takes them away, and calls them."""

    def __init__(self, ports: HandlerPorts) -> None:
        self.ports = ports

    def table(self) -> Mapping[type[Command], Handler]:
        """Which command goes where."""
        return {
            AttachTool: self.attach_tool,
            CallTool: self.call_tool,
            DetachTool: self.detach_tool,
        }

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

    async def call_tool(self, command: CallTool, work: UnitOfWork) -> Accepted | Rejected:
        """Carry a call out. Made again after a crash it sends the same commands."""
        agent = await work.load(Agent, command.agent_id)
        if agent.design is None:
            return missing(agent.id)
        if command.tool_name not in CALLABLE_ALONE:
            reason = f"'{command.tool_name}' is called in a conversation alone"
            return Rejected(code=INVALID, reason=reason)
        arguments = to_json(command.arguments).decode()
        call = ToolCall(id=command.call_id, name=command.tool_name, arguments=arguments)
        tools = self.ports.engine.ports.tools
        result = await tools.run(call, agent.design, "", command.call_id, work.context)
        return Accepted(result={"status": result.status, "text": result.text})
