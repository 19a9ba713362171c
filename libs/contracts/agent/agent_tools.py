"""The language of the agent service about the tools that an agent has."""

from __future__ import annotations

from typing import ClassVar

from libs.contracts.agent.agents import SERVICE
from libs.contracts.bus_messages import Command, JsonObject
from libs.contracts.tools.base_tools.catalogue import BASE_TOOLS

# What may be called without a conversation: it changes or searches what the agent remembers.
CALLABLE_ALONE = frozenset(
    {"conversation_search", "conversation_search_date"}
    | {name for name, tool in BASE_TOOLS.items() if tool.owner == "memory"}
)


class AttachTool(Command):
    """Let an agent have a tool."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "agent.attach_tool"
    agent_id: str
    tool_id: str

    @property
    def target(self) -> str:
        return self.agent_id


class DetachTool(Command):
    """Take a tool from an agent."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "agent.detach_tool"
    agent_id: str
    tool_id: str

    @property
    def target(self) -> str:
        return self.agent_id


class CallTool(Command):
    """Call one of the tools in `CALLABLE_ALONE` that an agent has, without its model; the reply
    says how the call ended and what it returned."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "agent.call_tool"
    call_id: str
    agent_id: str
    tool_name: str
    arguments: JsonObject

    @property
    def target(self) -> str:
        """Each call is one of its own: it may send commands to its agent."""
        return self.call_id
