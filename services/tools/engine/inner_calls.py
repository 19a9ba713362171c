"""Calls that a program makes of its agent's tools: each goes the way of every other call, with the
same permissions, and is recorded as they are."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, replace
from functools import partial

from libs.bus.ports import Bus, BusUnavailable, Clock
from libs.contracts.agent.tool_rule_evaluation import ToolRules, refusal_of
from libs.contracts.bus_messages import Context, JsonObject, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.tools.tool_runs import (
    InnerTool,
    RunTool,
    StopToolRun,
    ToolRunResult,
    tool_run_deltas,
)
from libs.eventstore.ports import StoreUnavailable
from libs.work.progress import ProgressMessage, follow
from services.tools.adapters.tool_run_queries import ToolRunQueries
from services.tools.engine.builtin_runner import failure

# Of one program. What a call makes is never a program that calls tools again.
CALLS_MAX = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerCallPorts:
    """The ports of inner calls."""

    bus: Bus
    queries: ToolRunQueries
    clock: Clock


class InnerCalls:
    """The calls of one program, which the call `outer` runs."""

    def __init__(self, ports: InnerCallPorts, outer: RunTool, org: str) -> None:
        self.ports = ports
        self.outer = outer
        self.org = org
        self.tools = {tool.name: tool for tool in outer.inner_tools}
        self.give_up_at = ports.clock.monotonic() + outer.seconds_max
        self.count = 0
        self.rules = ToolRules(outer.tool_rules, outer.called)

    async def answer(self, name: str, arguments: JsonObject) -> JsonObject:
        """The result of a call, as the program reads it."""
        result = await self.result(name, arguments)
        status = "success" if result.status == "success" else "error"
        return {"status": status, "text": result.text}

    async def result(self, name: str, arguments: JsonObject) -> ToolRunResult:
        """The result of a call; each failure is a text."""
        tool = self.tools.get(name)
        if tool is None:
            return failure(f"There is no tool named '{name}'. Yours are: {', '.join(self.tools)}")
        if tool.refused:
            return failure(tool.refused)
        left = self.rules.tools_left(set(self.tools))
        if name not in left:
            return failure(refusal_of(name, [key for key in left if not self.tools[key].refused]))
        if self.count >= CALLS_MAX:
            return failure(f"A program may call tools {CALLS_MAX} times")
        self.count += 1
        given = self.rules.prefilled_arguments([name]).get(name, {})
        self.rules = replace(self.rules, called=[*self.rules.called, name], returned="")
        try:
            result = await self.make_call(tool, {**arguments, **given})
        except (BusUnavailable, StoreUnavailable):
            return failure(f"'{name}' got no answer, and may or may not have worked")
        self.rules = replace(self.rules, returned=result.text)
        return result

    @property
    def called_tools(self) -> list[str]:
        """The tools that the program has called."""
        return [*self.rules.called[len(self.outer.called) :]]

    async def make_call(self, tool: InnerTool, arguments: JsonObject) -> ToolRunResult:
        """Start a call, and return its result once it ended. If this is cancelled, the call is
        stopped."""
        outer = self.outer
        command = RunTool(
            tool_run_id=derived_id("tool_run", outer.tool_run_id, str(self.count)),
            tool_id=tool.tool_id,
            arguments=arguments,
            environment=outer.environment if tool.reads_secrets else {},
            agent_id=outer.agent_id,
            project_id=outer.project_id,
            run_id=outer.run_id,
            step_id=outer.step_id,
            tool_call_id=outer.tool_call_id,
            seconds_max=max(1.0, self.give_up_at - self.ports.clock.monotonic()),
            inner=True,
            block_ids=outer.block_ids,
        )
        context = Context(command.tool_run_id, org=self.org)
        subject = tool_run_deltas(self.org, command.tool_run_id)
        async with follow(self.ports.bus, subject) as progress:
            try:
                reply = await self.ports.bus.request(command, context)
                if isinstance(reply, Rejected):
                    return failure(reply.reason)
                end = await progress.end(partial(self.look, command.tool_run_id))
            except asyncio.CancelledError:
                await asyncio.shield(self.stop(command.tool_run_id, context))
                raise
        return ToolRunResult.model_validate(end["result"])

    async def look(self, tool_run_id: str) -> ProgressMessage | None:
        """Read the end of a call from its row; one that nobody makes any more has failed."""
        row = await self.ports.queries.run_result(self.org, tool_run_id)
        if row is None:
            return {"result": failure("The call was lost, and may or may not have worked")}
        return row if row["result"] else None

    async def stop(self, tool_run_id: str, context: Context) -> None:
        """Have a call stopped; if nobody can be told, its deadline stops it."""
        command = StopToolRun(tool_run_id=tool_run_id)
        cause = context.follow_up(derived_id("stop", tool_run_id))
        with contextlib.suppress(BusUnavailable):
            await self.ports.bus.request(command, cause)
