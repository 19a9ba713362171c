"""Commands about calls of tools: load, decide, save, reply; the result comes later, by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from libs.bus.command_dispatcher import Handler
from libs.bus.ports import Clock
from libs.contracts.agent.approvals import changed_since_approval
from libs.contracts.bus_messages import UNAVAILABLE, UNPROCESSABLE, Accepted, Command, Rejected
from libs.contracts.letta.tools import ToolState
from libs.contracts.tools.base_tools.catalogue import CATALOGUE, base_tool_state
from libs.contracts.tools.tool_permission_evaluation import (
    CalledTool,
    Caller,
    ToolPolicies,
    refusal_by_policies,
)
from libs.contracts.tools.tool_runs import RunTool, StopToolRun, ToolRunResult
from libs.eventstore.unit_of_work import UnitOfWork
from services.tools.adapters.tool_sources import ToolSources
from services.tools.domain.name_reservations import impersonation
from services.tools.domain.tool import Tool, missing
from services.tools.domain.tool_run import ToolRun
from services.tools.engine.tool_runner_protocol import refusal
from services.tools.engine.tool_runs import ToolRuns


class ToolRunHandlers:
    """Begins calls, and ends them before their time."""

    def __init__(
        self, runs: ToolRuns, clock: Clock, policies: Callable[[], ToolPolicies | None]
    ) -> None:
        self.runs = runs
        self.clock = clock
        self.policies = policies
        self.sources = ToolSources()

    def table(self) -> Mapping[type[Command], Handler]:
        """The handler of each command."""
        return {RunTool: self.run_tool, StopToolRun: self.stop_tool_run}

    async def run_tool(self, command: RunTool, work: UnitOfWork) -> Accepted | Rejected:
        """Begin a call, once that is durable: a copy of the command does not make it again."""
        call = await work.load_new(ToolRun, command.tool_run_id)
        tool = await self.tool(command, work)
        if isinstance(tool, Rejected):
            return tool
        why = self.refusal_by_policies(command, tool, work.context.org)
        if why:
            call.refuse(command, tool, why, at=self.clock.now())
            result = ToolRunResult(status="error", text=why)
            work.after_commit.append(lambda _: self.runs.refuse(call.id, work.context.org, result))
            return Accepted()
        stored = command.source is None
        why = (impersonation(tool) if stored else "") or refusal(
            self.runs.ports.runners, tool, command
        )
        if why:
            # Only a process that is being stopped is worth another try.
            code = UNAVAILABLE if self.runs.stopping else UNPROCESSABLE
            return Rejected(code=code, reason=why)
        if self.runs.stopping:
            return Rejected(code=UNAVAILABLE, reason="This process is being stopped: try again")
        refused = call.begin(command, tool, at=self.clock.now())
        if refused:
            return refused
        self.runs.begin_call(tool, command, work)
        return Accepted()

    def refusal_by_policies(self, command: RunTool, tool: ToolState, org: str) -> str:
        """Why the lists of allowed tools forbid this call to this caller; empty if they do not."""
        caller = Caller(org, command.project_id, command.agent_id)
        tool_id = command.tool_id if command.source is None else ""
        return refusal_by_policies(
            self.policies(), caller, CalledTool(tool_id, tool.name, tool.tool_type.value)
        )

    async def tool(self, command: RunTool, work: UnitOfWork) -> ToolState | Rejected:
        """The tool that a command calls, or a refusal."""
        if command.source is not None:
            return await self.sources.complete(command.source, work.context.org)
        if command.tool_id in CATALOGUE:
            return ToolState.model_validate(base_tool_state(CATALOGUE[command.tool_id]))
        tool = await work.load(Tool, command.tool_id)
        if tool.present is None:
            return missing(command.tool_id)
        if command.revision and command.revision != tool.version:
            reason = changed_since_approval(tool.present.name)
            return Rejected(code=UNPROCESSABLE, reason=reason)
        return tool.present

    async def stop_tool_run(self, command: StopToolRun, work: UnitOfWork) -> Accepted | Rejected:
        """End a call; the process that makes it is told."""
        call = await work.load(ToolRun, command.tool_run_id)
        call.stop(at=self.clock.now())
        work.after_commit.append(lambda _: self.runs.cancel(command.tool_run_id))
        return Accepted()
