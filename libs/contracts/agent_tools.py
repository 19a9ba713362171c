"""The language of the agent service about the tools that an agent has."""

from __future__ import annotations

from typing import ClassVar

from libs.contracts.agent import SERVICE
from libs.contracts.bus_messages import Command
from libs.contracts.conversation import RunEvent


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


class ToolCallForbidden(RunEvent):
    """A tool was not called, because the agent may not call it.

    `reason` says which list does not have it; the model is told that as the result of its call."""

    topic: ClassVar[str] = "tool_call.forbidden"
    additive: ClassVar[bool] = True
    step_id: str
    tool_call_id: str
    tool: str
    reason: str
