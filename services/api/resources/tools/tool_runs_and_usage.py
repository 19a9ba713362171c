"""Calls of tools, and what they used. V1 has neither."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from litestar import Response
from pydantic_core import to_json

from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.request_size_limits import Name
from services.api.adapters.resource_query_builder import Resource, Where
from services.api.adapters.tools.tool_queries import CALLS_MAX, ToolUsage, ToolUsageQueries
from services.api.http.callers import org_of
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import AnyRequest, Page, query_of
from services.api.openapi.operation import get
from services.api.resources.agents.agents import AGENTS
from services.api.v1.read_model_responses import answer_document, answer_page, document_of

CALLS = Resource(
    kind="tool_run",
    view="tools.tool_run_view",
    document=(
        "jsonb_build_object('id', v.id, 'created_at', v.created_at, 'tool_id', v.tool_id,"
        " 'tool_name', v.name, 'agent_id', nullif(v.agent_id, ''), 'run_id', nullif(v.run_id, ''),"
        " 'tool_call_id', nullif(v.tool_call_id, ''), 'status', v.status,"
        " 'tool_return', v.result->'text', 'stdout', v.result->'stdout',"
        " 'stderr', v.result->'stderr', 'usage', case when v.result is not null then"
        " jsonb_build_object('seconds', v.result->'seconds',"
        " 'cpu_seconds', v.result->'cpu_seconds',"
        " 'memory_bytes_max', v.result->'memory_bytes_max',"
        " 'processes_max', coalesce(v.result->'processes_max', '0'),"
        " 'output_bytes', coalesce(v.result->'output_bytes', '0'),"
        " 'sampling', v.result->'sampling') end)"
    ),
)
Status = Literal["running", "success", "error", "timeout", "killed", "stopped", "lost"]


class CallPage(Page):
    """A page of calls."""

    agent_id: Annotated[Name | None, Where("v.agent_id = {}", key=True)] = None
    tool_name: Annotated[Name | None, Where("v.name = {}", key=True)] = None
    status: Annotated[Status | None, Where("v.status = {}", key=True)] = None


@get("/v1/tool-runs", "calls of tools", query=CallPage)
async def list_tool_runs(request: AnyRequest) -> Response[bytes]:
    """List the calls of tools, the latest first."""
    return await answer_page(request, CALLS, query_of(request, CallPage))


@get("/v1/tool-runs/{tool_run_id:str}", "call of a tool")
async def retrieve_tool_run(request: AnyRequest, tool_run_id: str) -> Response[bytes]:
    """Retrieve the call of a tool, with what it used."""
    return await answer_document(request, CALLS, tool_run_id)


@get("/v1/agents/{agent_id:str}/tools/usage", "what the agent's tools used")
async def retrieve_tool_usage(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """Retrieve what the latest calls of an agent's tools used, in all and by tool."""
    await document_of(request, AGENTS, agent_id, document="v.id")
    used = await ToolUsageQueries(api_of(request).reads.database).usage(org_of(request), agent_id)
    names = list(dict.fromkeys(usage.name for usage in used))
    by_tool = [{"tool_name": name, **total([u for u in used if u.name == name])} for name in names]
    body: JsonObject = {
        "agent_id": agent_id,
        "since": min(usage.since for usage in used).isoformat() if used else None,
        "calls_max": CALLS_MAX,
        **total(used),
        "by_tool": [*by_tool],
    }
    return raw(to_json(body))


def total(used: Sequence[ToolUsage]) -> JsonObject:
    """The usage of several tools together."""
    return {
        "calls": sum(usage.calls for usage in used),
        "by_status": {
            status: sum(usage.calls for usage in used if usage.status == status)
            for status in sorted({usage.status for usage in used})
        },
        "seconds": sum(usage.seconds for usage in used),
        "cpu_seconds": sum(usage.cpu_seconds for usage in used),
        "memory_bytes_max": max((usage.memory_bytes_max for usage in used), default=0),
        "processes_max": max((usage.processes_max for usage in used), default=0),
        "output_bytes": sum(usage.output_bytes for usage in used),
        "sampling": {
            "requests": sum(usage.sampling_requests for usage in used),
            "prompt_tokens": sum(usage.sampling_prompt_tokens for usage in used),
            "completion_tokens": sum(usage.sampling_completion_tokens for usage in used),
        },
    }
