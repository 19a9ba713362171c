"""Run tools without an agent's model: source that is sent along, or a tool that an agent has."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial

from litestar import Response
from pydantic_core import from_json, to_json

from libs.bus.ports import BusUnavailable
from libs.contracts.agent.agents import CALLABLE_ALONE, CallTool
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta import all_request_bodies as bodies
from libs.contracts.letta.messages import message_date
from libs.contracts.letta.tools import ToolState
from libs.contracts.tools.base_tools.catalogue import CATALOGUE
from libs.contracts.tools.tool_runs import (
    RUNNABLE_TYPES,
    RunTool,
    StopToolRun,
    ToolRunResult,
    tool_run_deltas,
)
from libs.work.progress import ProgressMessage, follow
from services.api.adapters.resource_query_builder import Resource
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.per_path_concurrency_limits import end_turn
from services.api.http.raw_json import raw
from services.api.http.request_admission import unless_hung_up
from services.api.http.request_parsing import AnyRequest, body_of, context_of, valid_id
from services.api.openapi.operation import post
from services.api.resources.agents.agents import AGENTS
from services.api.v1.agent_documents import SEALED_SECRETS, TOOLS
from services.api.v1.read_model_responses import document_of
from services.api.v1.secret_sealing import sealed_values

RUN_SECONDS_MAX = 60.0
NULL = "null"  # what V1 calls a message that is not stored, and a call that no model made
TOOL_RUNS = Resource(
    kind="tool_run",
    view="tools.tool_run_view",
    document="jsonb_build_object('result', v.result, 'alive', v.alive and v.status = 'running')",
)
WHAT_A_CALL_NEEDS = (
    f"jsonb_build_object('tools', {TOOLS}, 'secrets', {SEALED_SECRETS},"
    " 'project_id', v.fields->>'project_id')"
)
LOST: JsonObject = {
    "status": "error",
    "text": "The server stopped while the tool ran: whether it took effect is not known.",
}


@post("/v1/tools/run", "what the tool returned", body=bodies.ToolRunFromSource)
async def run_tool_from_source(request: AnyRequest) -> Response[bytes]:
    """Run source once, in the sandbox; no tool is made of it."""
    body = await body_of(request, bodies.ToolRunFromSource)
    fields = body.model_dump(mode="json", exclude={"args", "env_vars"}, exclude_none=True)
    command = RunTool(
        tool_run_id=api_of(request).ids.new("tool_run"),
        source=ToolState.model_validate({**fields, "id": ""}),
        arguments=body.args,
        environment=sealed_values(api_of(request).sealer, "env_vars", body.env_vars or {}),
        seconds_max=RUN_SECONDS_MAX,
    )
    result = await outcome(request, command)
    returned: JsonObject = {
        "tool_return": result.text,
        "status": status_of(result),
        "tool_call_id": NULL,
        "stdout": [*result.stdout],
        "stderr": [*result.stderr],
    }
    unsaid = dict.fromkeys(("name", "otid", "sender_id", "step_id", "is_err", "seq_id", "run_id"))
    return raw(
        to_json(
            {
                "id": NULL,
                "date": message_date(api_of(request).clock.now()),
                "message_type": "tool_return_message",
                **unsaid,
                **returned,
                "tool_returns": [{"type": "tool", **returned}],
            }
        )
    )


@post(
    "/v1/agents/{agent_id:str}/tools/{tool_name:str}/run",
    "what the tool returned",
    body=bodies.ToolExecuteRequest,
)
async def run_tool_of_agent(request: AnyRequest, agent_id: str, tool_name: str) -> Response[bytes]:
    """Run a tool that an agent has, with the given arguments; its history does not know of it."""
    body = await body_of(request, bodies.ToolExecuteRequest)
    agent = from_json(await document_of(request, AGENTS, agent_id, document=WHAT_A_CALL_NEEDS))
    found = next((tool for tool in agent["tools"] if tool["name"] == tool_name), None)
    if found is None:
        detail = f"Agent {agent_id} has no tool named '{tool_name}': attach it first"
        raise Problem(404, {"detail": detail})
    if tool_name in CALLABLE_ALONE and found["id"] in CATALOGUE:
        return raw(
            to_json(execution_result(await call_by_agent(request, agent_id, tool_name, body.args)))
        )
    if found["tool_type"] not in RUNNABLE_TYPES:
        detail = f"'{tool_name}' is called in a conversation: only an agent's model calls it"
        raise Problem(501, {"detail": detail}, {"x-should-retry": "false"})
    command = RunTool(
        tool_run_id=api_of(request).ids.new("tool_run"),
        tool_id=found["id"],
        arguments=body.args,
        environment=agent["secrets"],
        agent_id=valid_id("agent", agent_id),
        project_id=agent["project_id"] or "",
        seconds_max=RUN_SECONDS_MAX,
    )
    result = await outcome(request, command)
    return raw(to_json(execution_result(result)))


async def call_by_agent(
    request: AnyRequest, agent_id: str, tool_name: str, arguments: JsonObject
) -> ToolRunResult:
    """The result of a call of a tool that the agent service carries out."""
    api = api_of(request)
    call_id = api.new_id(request, "call", agent_id, tool_name)
    command = CallTool(call_id=call_id, agent_id=agent_id, tool_name=tool_name, arguments=arguments)
    end_turn(request.scope["state"])  # a search may take long
    reply = await api.send(request, command, message_id=call_id, seconds_max=RUN_SECONDS_MAX)
    return ToolRunResult.model_validate(reply.result)


def execution_result(result: ToolRunResult) -> JsonObject:
    """The result of a call, in V1's form."""
    return {
        "status": status_of(result),
        "func_return": result.text,
        "agent_state": None,
        "stdout": [*result.stdout],
        "stderr": [*result.stderr],
        "sandbox_config_fingerprint": None,
    }


def status_of(result: ToolRunResult) -> str:
    """The status of a run's end, in V1's two words."""
    return "success" if result.status == "success" else "error"


async def outcome(request: AnyRequest, command: RunTool) -> ToolRunResult:
    """The result of a tool, from its progress or its row. A client that hangs up has it stopped."""
    api = api_of(request)
    async with follow(api.bus, tool_run_deltas(org_of(request), command.tool_run_id)) as progress:
        await api.send(request, command, message_id=command.tool_run_id, keyed=False)
        end_turn(request.scope["state"])  # a tool may take long
        try:
            waiting = progress.end(partial(end_in_row, request, command.tool_run_id))
            end = await unless_hung_up(request, waiting)
        except (Problem, asyncio.CancelledError):
            await stop(request, command.tool_run_id)
            raise
    return ToolRunResult.model_validate(end["result"])


async def end_in_row(request: AnyRequest, tool_run_id: str) -> ProgressMessage | None:
    """The end of a run as its row has it, and None while a process is at work."""
    row = await api_of(request).reads.one(TOOL_RUNS, org_of(request), tool_run_id)
    seen = from_json(row) if row else {"result": None, "alive": False}
    ended = seen["result"] or not seen["alive"]
    return {"result": seen["result"] or LOST} if ended else None


async def stop(request: AnyRequest, tool_run_id: str) -> None:
    """Have a run stopped that nobody waits for; if nobody can be told, its deadline stops it."""
    command = StopToolRun(tool_run_id=tool_run_id)
    with suppress(BusUnavailable):
        await api_of(request).bus.request(command, context_of(request, f"stop-{tool_run_id}"))
