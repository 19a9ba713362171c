"""Send each tool call to the service that owns the tool."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from pydantic import ValidationError

from libs.bus.ports import BusUnavailable, Clock
from libs.contracts.agent.approvals import changed_since_approval
from libs.contracts.agent.conversations import ToolCall
from libs.contracts.agent.tool_rule_evaluation import NO_RULES, ToolRules
from libs.contracts.bus_messages import Context
from libs.contracts.shortened_text import cut
from libs.contracts.tools.base_tools.definition import Owner
from libs.eventstore import failpoints
from libs.eventstore.ports import StoreUnavailable
from services.agent.adapters.tool_owner_port import Calling, Runner, ToolOwner, error
from services.agent.adapters.tool_permissions import Policies, why_forbidden
from services.agent.domain.agents.agent import AgentDesign
from services.agent.domain.runs.step_results import ToolResult
from services.agent.domain.tools.custom_tools import TOOL_ARGUMENTS_CHARS_MAX, HeldTool
from services.agent.settings import TOOL_SECONDS_MAX

log = logging.getLogger(__name__)

PROBLEMS_SHOWN_MAX = 10
OUTAGE_RETRY_SECONDS = 1.0


class Tools(Protocol):
    """The tools of agents."""

    def idempotent(self, name: str, design: AgentDesign) -> bool:
        """Whether a call of the agent's tool may be made again after a crash."""

    async def run(
        self,
        call: ToolCall,
        design: AgentDesign,
        run_id: str,
        step_id: str,
        context: Context,
        rules: ToolRules = NO_RULES,
    ) -> ToolResult:
        """Carry a call out; whatever goes wrong is a result that the model sees. The `rules` of its
        run hold for what it calls, too."""


class ToolRouter:
    """Keeps the contract of `Tools`, with the catalogue and the owners that there are."""

    def __init__(
        self,
        owners: Mapping[Owner, ToolOwner],
        clock: Clock,
        *,
        policies: Policies,
        seconds_max: float = TOOL_SECONDS_MAX,
    ) -> None:
        self.owners = owners
        self.clock = clock
        self.seconds_max = seconds_max
        self.policies = policies

    def runner(self, tool: HeldTool) -> Runner | None:
        """The function for calls of a tool; None if its owner is not there, or cannot yet."""
        owner = self.owners.get(tool.owner)
        return owner.runner(tool) if owner else None

    def idempotent(self, name: str, design: AgentDesign) -> bool:
        """Whether a call may be made again after a crash: the tool says so. Nothing happens in a
        call that has no runner, however often; but a tool that the agent still has by name may
        have been there when it was called."""
        tool = find_held_tool(name, design)
        if tool is None:
            return name not in design.tools
        return tool.idempotent or self.runner(tool) is None

    async def run(
        self,
        call: ToolCall,
        design: AgentDesign,
        run_id: str,
        step_id: str,
        context: Context,
        rules: ToolRules = NO_RULES,
    ) -> ToolResult:
        tool = find_held_tool(call.name, design)
        if tool is None:
            names = ", ".join(tool.name for tool in design.current_tools)
            return error(f"There is no tool named '{call.name}'. Yours are: {names}")
        if call.bound is not None and tool.id != call.bound.id:
            return error(changed_since_approval(call.name))
        why = why_forbidden(self.policies(), context.org, design, tool)
        if why:
            log.info("run %s: %s", run_id, why)
            return ToolResult("error", why, forbidden=True)
        if len(call.arguments) >= TOOL_ARGUMENTS_CHARS_MAX:
            return error(f"The arguments were cut: {TOOL_ARGUMENTS_CHARS_MAX} characters at most.")
        runner = self.runner(tool)
        if runner is None:
            return error(f"The tool '{call.name}' is not built yet on this server.")
        seconds = min(tool.deadline_seconds or self.seconds_max, self.seconds_max)
        try:
            async with asyncio.timeout(seconds) as limit:
                result = await self.run_through_outages(
                    runner, Calling(call, design, run_id, step_id, context, rules), seconds
                )
        except TimeoutError:
            if not limit.expired():
                raise
            result = late(call.name, seconds)
        failpoints.reach("after_tool")
        return cut_result(result, tool.return_chars_max)

    async def run_through_outages(
        self, runner: Runner, calling: Calling, seconds: float
    ) -> ToolResult:
        """The result of a tool call. During an outage the call is repeated until its time is up."""
        name = calling.call.name
        give_up_at = self.clock.monotonic() + seconds
        while True:
            try:
                return await runner(calling)
            except ValidationError as invalid:
                return error(f"The arguments do not fit '{name}': {summary(invalid)}")
            except (BusUnavailable, StoreUnavailable) as outage:
                log.warning("tool %s waits: %s", name, outage)
                if self.clock.monotonic() > give_up_at:
                    return error(f"'{name}' got no answer, and may or may not have worked.")
                await self.clock.sleep(OUTAGE_RETRY_SECONDS)


def late(name: str, seconds: float) -> ToolResult:
    """The error result of a tool that took too long."""
    return error(
        f"'{name}' took longer than {seconds:g} seconds and was stopped. It may or may not have "
        "taken effect: check before you call it again."
    )


def find_held_tool(name: str, design: AgentDesign) -> HeldTool | None:
    """The tool of this name in the agent's design, or None."""
    return next((tool for tool in design.current_tools if tool.name == name), None)


def cut_result(result: ToolResult, chars_max: int) -> ToolResult:
    """The result, cut to the characters that its tool may return."""
    text = cut(result.text, chars_max)
    return result if text is result.text else replace(result, text=text)


def summary(invalid: ValidationError) -> str:
    """The problems with the arguments, field by field."""
    return "; ".join(
        f"{'.'.join(map(str, problem['loc'])) or 'arguments'}: {problem['msg']}"
        for problem in invalid.errors(include_input=False)[:PROBLEMS_SHOWN_MAX]
    )
