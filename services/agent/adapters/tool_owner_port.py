"""The port to the services that carry tool calls out, and what its adapters share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from libs.contracts.agent.conversations import ToolCall
from libs.contracts.agent.tool_rule_evaluation import NO_RULES, ToolRules
from libs.contracts.bus_messages import Context
from services.agent.domain.agents.agent import AgentDesign
from services.agent.domain.runs.step_results import ToolResult
from services.agent.domain.tools.custom_tools import HeldTool


@dataclass(frozen=True, slots=True)
class Calling:
    """The facts that a tool gets about the call that it carries out."""

    call: ToolCall
    design: AgentDesign
    run_id: str
    step_id: str
    context: Context
    rules: ToolRules = NO_RULES


Runner = Callable[[Calling], Awaitable[ToolResult]]


class ToolOwner(Protocol):
    """One owner of tools. Runners raise BusUnavailable or StoreUnavailable during an outage, and
    pydantic's ValidationError for arguments that do not fit."""

    def runner(self, tool: HeldTool) -> Runner | None:
        """The function that carries out calls of a tool; None if the owner cannot yet."""


def error(text: str) -> ToolResult:
    """A result that tells the model what went wrong."""
    return ToolResult("error", text)
