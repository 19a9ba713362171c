"""The port to the services that carry tool calls out, and what its adapters share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from libs.bus.ports import REQUEST_SECONDS_MAX, Bus, request_as_service
from libs.contracts.agent.conversations import ToolCall
from libs.contracts.agent.tool_rule_evaluation import NO_RULES, ToolRules
from libs.contracts.bus_messages import Accepted, Command, Context, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.eventstore import failpoints
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


async def send_command(
    bus: Bus,
    calling: Calling,
    command: Command,
    *part: str,
    seconds_max: float = REQUEST_SECONDS_MAX,
) -> Accepted | Rejected:
    """The reply to a command that a call asks for. The same call is the same command; `part` tells
    apart those of one call. Raises BusUnavailable."""
    failpoints.reach("during_tool")
    command_id = derived_id("cmd", calling.step_id, calling.call.id, *part)
    context = calling.context.follow_up(command_id)
    return await request_as_service(bus, command, context, seconds_max=seconds_max)


def error(text: str) -> ToolResult:
    """A result that tells the model what went wrong."""
    return ToolResult("error", text)
