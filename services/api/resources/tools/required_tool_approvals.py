"""Which tools of an agent need an approval."""

from __future__ import annotations

from litestar import Response
from pydantic import BaseModel

from libs.contracts.agent.approvals import SetToolApproval
from services.api.http.encoded_slashes import last_segment
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import AnyRequest, Query, parse, query_of, valid_id
from services.api.openapi.operation import patch
from services.api.resources.agents.agents import AGENTS
from services.api.v1.client_versions import is_legacy
from services.api.v1.read_model_responses import answer_document


class ApprovalWanted(BaseModel):
    """Whether a tool is to need an approval."""

    requires_approval: bool


class DeprecatedApprovalWanted(Query):
    """The same, where older clients say it."""

    requires_approval: bool | None = None


@patch(
    "/v1/agents/{agent_id:str}/tools/approval/{tool_name:str}",
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
    return await answer_document(request, AGENTS, agent_id) if is_legacy(request) else raw(b"null")


async def is_approval_wanted(request: AnyRequest) -> bool:
    """The choice by the body, or else the query. Raises the 422 of neither."""
    if body := await request.body():
        return parse(body, ApprovalWanted).requires_approval
    asked = query_of(request, DeprecatedApprovalWanted).requires_approval
    if asked is None:
        detail = "`requires_approval` is missing: say true or false in the body"
        raise Problem(422, {"detail": detail})
    return asked
