"""Tools that the tools service runs, each call once: custom ones, and what is built in."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial

from pydantic import JsonValue, TypeAdapter

from libs.bus.ports import Bus, BusUnavailable, Clock
from libs.contracts.agent.conversations import ToolStatus
from libs.contracts.bus_messages import Context, JsonObject, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta.enums import ToolType
from libs.contracts.tools.tool_runs import (
    CALLS_TOOLS,
    RUNNABLE_TYPES,
    SEARCH_SECRETS,
    SEARCHES,
    InnerTool,
    RunTool,
    StopToolRun,
    ToolRunResult,
    tool_run_deltas,
)
from libs.work.acceptance import ask_until_accepted
from libs.work.progress import ProgressMessage, follow
from services.agent.adapters.tool_owner_port import Calling, Runner, error
from services.agent.adapters.tool_queries import ToolRunQueries
from services.agent.domain.agents.agent import AgentDesign
from services.agent.domain.conversations.active_run import INTERRUPTED
from services.agent.domain.runs.heartbeat_loop import HEARTBEAT
from services.agent.domain.runs.step_results import ToolResult
from services.agent.domain.tools.call_arguments import THOUGHTS
from services.agent.domain.tools.custom_tools import HeldTool
from services.agent.settings import TOOL_SECONDS_MAX

CODE = ToolType.custom.value
INNER_TOOLS_MAX = 200
# The sandbox stops a tool a little before nobody waits for it any more, and says so.
SANDBOX_PART_OF_DEADLINE = 0.9

LOST = {"status": "error", "text": INTERRUPTED}

_ARGUMENTS = TypeAdapter(dict[str, JsonValue])


class ToolsServiceClient:
    """Keeps the contract of `ToolOwner`. `seconds_max` is how long a call is waited for."""

    def __init__(
        self,
        bus: Bus,
        queries: ToolRunQueries,
        clock: Clock,
        *,
        seconds_max: float = TOOL_SECONDS_MAX,
    ) -> None:
        self.bus = bus
        self.queries = queries
        self.clock = clock
        self.seconds_max = seconds_max
        self.stops: set[asyncio.Task[None]] = set()

    def runner(self, tool: HeldTool) -> Runner | None:
        """The function that carries out calls of a tool; None for those that are not built yet."""
        return partial(self.run, tool) if tool.tool_type in RUNNABLE_TYPES else None

    async def run(self, tool: HeldTool, calling: Calling) -> ToolResult:
        """Have a tool called, and wait for what comes of it. Cancelled, it has the call stopped."""
        org, call, calls_tools = calling.context.org, calling.call, tool.name == CALLS_TOOLS
        command = RunTool(
            tool_run_id=derived_id("tool_run", calling.run_id, calling.step_id, call.id),
            tool_id=tool.id,
            revision=call.bound.revision if call.bound else 0,
            arguments=arguments_of(tool, call.arguments),
            environment=secrets_for(tool, calling.design),
            inner_tools=inner_tools(calling.design) if calls_tools else [],
            tool_rules=[*calling.rules.rules] if calls_tools else [],
            called=[*calling.rules.called, call.name] if calls_tools else [],
            agent_id=calling.design.config.id,
            project_id=calling.design.config.project_id or "",
            run_id=calling.run_id,
            step_id=calling.step_id,
            tool_call_id=call.id,
            seconds_max=self.seconds_max * SANDBOX_PART_OF_DEADLINE,
            block_ids=calling.design.block_ids if may_see_blocks(tool) else [],
        )
        context = calling.context.follow_up(command.tool_run_id)
        look = partial(self.look, org, command.tool_run_id)
        async with follow(self.bus, tool_run_deltas(org, command.tool_run_id)) as progress:
            try:
                reply = await ask_until_accepted(self.bus, self.clock, command, context)
                if isinstance(reply, Rejected):
                    return error(reply.reason)
                end = await progress.end(look)
            except asyncio.CancelledError:
                self.stop_later(command.tool_run_id, context)
                raise
        return tool_result(ToolRunResult.model_validate(end["result"]))

    async def look(self, org: str, tool_run_id: str) -> ProgressMessage | None:
        """Read the end of a call from its row; one that nobody makes any more has failed."""
        seen = await self.queries.tool_run(org, tool_run_id)
        if seen is not None and seen.result:
            return {"result": seen.result}
        return None if seen is not None and seen.alive else {"result": LOST}

    def stop_later(self, tool_run_id: str, context: Context) -> None:
        """Have a call stopped, without anybody waiting for that."""
        task = asyncio.create_task(self.stop(tool_run_id, context))
        self.stops.add(task)
        task.add_done_callback(self.stops.discard)

    async def stop(self, tool_run_id: str, context: Context) -> None:
        """Have a call stopped; if nobody can be told, its deadline stops it."""
        command = StopToolRun(tool_run_id=tool_run_id)
        with contextlib.suppress(BusUnavailable):
            await self.bus.request(command, context.follow_up(derived_id("stop", tool_run_id)))


def secrets_for(tool: HeldTool, design: AgentDesign) -> dict[str, str]:
    """The secrets of an agent that a call may need. A program that calls tools is not told them:
    they go with its calls."""
    if tool.tool_type == CODE or tool.name == CALLS_TOOLS:
        return design.secrets
    wanted = SEARCH_SECRETS if tool.name == SEARCHES else ()
    return {name: design.secrets[name] for name in wanted if name in design.secrets}


def may_see_blocks(tool: HeldTool) -> bool:
    """Whether the code of a tool may take its agent: what takes it is known where it runs."""
    return tool.tool_type == CODE or tool.name == CALLS_TOOLS


def inner_tools(design: AgentDesign) -> list[InnerTool]:
    """The tools that a program of an agent may call, and those that it may not, with the reason."""
    waits = {
        rule.get("tool_name")
        for rule in design.config.tool_rules
        if rule.get("type") == "requires_approval"
    }
    renamed = design.attached_names  # rules know a tool by the name that it was attached with
    return [
        inner_tool(tool, waits=not waits.isdisjoint((tool.name, renamed.get(tool.name, ""))))
        for tool in design.current_tools[:INNER_TOOLS_MAX]
    ]


def inner_tool(tool: HeldTool, *, waits: bool) -> InnerTool:
    """One of an agent's tools, as a program calls it."""
    refused = ""
    if waits:
        refused = f"'{tool.name}' needs an approval: call it yourself, not by a program"
    elif tool.name == CALLS_TOOLS or tool.tool_type not in RUNNABLE_TYPES:
        refused = f"'{tool.name}' cannot be called by a program: call it yourself"
    parameters = tool.json_schema["parameters"]
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    return InnerTool(
        name=tool.name,
        tool_id=tool.id,
        parameters=[*properties] if isinstance(properties, dict) else [],
        reads_secrets=tool.tool_type == CODE or tool.name == SEARCHES,
        refused=refused,
    )


def arguments_of(tool: HeldTool, arguments: str) -> JsonObject:
    """The arguments of a call, without what a loop adds to them that the tool does not know.
    Raises ValidationError for what is no object."""
    parameters = tool.json_schema["parameters"]
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    known = properties if isinstance(properties, dict) else {}
    given = _ARGUMENTS.validate_json(arguments or "{}")
    return {
        name: value
        for name, value in given.items()
        if name in known or name not in (HEARTBEAT, THOUGHTS)
    }


def tool_result(result: ToolRunResult) -> ToolResult:
    """The result for the model and for clients."""
    status: ToolStatus = "success" if result.status == "success" else "error"
    return ToolResult(
        status,
        result.text,
        stdout=result.stdout,
        stderr=result.stderr,
        called=tuple(result.called),
    )
