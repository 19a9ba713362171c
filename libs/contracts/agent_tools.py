"""The language of the agent service about the tools that an agent has."""

from __future__ import annotations

from typing import ClassVar

from libs.contracts.agent import SERVICE
from libs.contracts.bus_messages import Command


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
