"""The tools of an agent, and which of them need an approval."""

from __future__ import annotations

from typing import Annotated, Literal

from litestar import Response
from pydantic import BaseModel, Field
from pydantic_core import from_json, to_json

from libs.contracts.agent.agents import AttachTool, DetachTool
from libs.contracts.agent.approvals import SetToolApproval
from services.api.adapters.resource_query_builder import slice_of_items
from services.api.http.encoded_slashes import last_segment
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import AnyRequest, Page, Query, parse, query_of, valid_id
from services.api.openapi.operation import get, patch
from services.api.resources.agents.agents import AGENTS
from services.api.v1.agent_documents import TOOLS
from services.api.v1.as_of import AsOf, seen_at
from services.api.v1.client_versions import is_legacy
from services.api.v1.read_model_responses import answer_document, document_of, slice_of

PATH = "/v1/agents/{agent_id:str}/tools"


class AgentToolPage(Page, AsOf):
    """A page of an agent's tools."""

    limit: Annotated[int | None, Field(ge=0, le=1_000)] = 100
    order: Literal["asc", "desc"] = "asc"


@get(PATH, "tools", query=AgentToolPage)
async def list_agent_tools(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """List the tools of an agent."""
    page = query_of(request, AgentToolPage)
    async with seen_at(request, agent_id, page.at):
        tools = from_json(await document_of(request, AGENTS, agent_id, document=TOOLS))
    return raw(to_json(slice_of_items(tools, slice_of(page))))


@patch(f"{PATH}/attach/{{tool_id:str}}", "null, or the agent")
async def attach_tool(request: AnyRequest, agent_id: str, tool_id: str) -> Response[bytes]:
    """Attach a tool to an agent."""
    command = AttachTool(agent_id=valid_id("agent", agent_id), tool_id=valid_id("tool", tool_id))
    await api_of(request).send(request, command)
    return await answer_change(request, agent_id)


@patch(f"{PATH}/detach/{{tool_id:str}}", "null, or the agent")
async def detach_tool(request: AnyRequest, agent_id: str, tool_id: str) -> Response[bytes]:
    """Detach a tool from an agent."""
    command = DetachTool(agent_id=valid_id("agent", agent_id), tool_id=valid_id("tool", tool_id))
    await api_of(request).send(request, command)
    return await answer_change(request, agent_id)


async def answer_change(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """The answer to a change: nothing, or the agent for clients older than SDK 1.0."""
    return await answer_document(request, AGENTS, agent_id) if is_legacy(request) else raw(b"null")


class ApprovalWanted(BaseModel):
    """Whether a tool is to need an approval."""

    requires_approval: bool


class DeprecatedApprovalWanted(Query):
    """The same, where older clients say it."""

    requires_approval: bool | None = None


@patch(
    f"{PATH}/approval/{{tool_name:str}}",
    "null, or the agent",
    query=DeprecatedApprovalWanted,
    body=ApprovalWanted,
)
async def update_approval(request: AnyRequest, agent_id: str, tool_name: str) -> Response[bytes]:
    """Have calls of a tool of an agent wait for an approval, or not any more."""
    command = SetToolApproval(
        agent_id=valid_id("agent", agent_id),
        tool=last_segment(request),
        requires_approval=await is_approval_wanted(request),
    )
    await api_of(request).send(request, command)
    return await answer_change(request, agent_id)


async def is_approval_wanted(request: AnyRequest) -> bool:
    """The choice by the body, or else the query. Raises the 422 of neither."""
    if body := await request.body():
        return parse(body, ApprovalWanted).requires_approval
    asked = query_of(request, DeprecatedApprovalWanted).requires_approval
    if asked is None:
        detail = "`requires_approval` is missing: say true or false in the body"
        raise Problem(422, {"detail": detail})
    return asked
