"""Which tools may be called: in the organisation, in a project, by an agent."""

from __future__ import annotations

from typing import Annotated

from litestar import Response
from pydantic import BaseModel, Field

from libs.contracts.letta.request_size_limits import Name
from libs.contracts.tools.tool_permissions import (
    CAPABILITIES,
    NAME_CHARS_MAX,
    TOOLS_OF_LIST_MAX,
    AllowList,
    Capability,
    ScopeKind,
    SetToolPermissions,
    permissions_id,
)
from services.api.adapters.resource_query_builder import Resource
from services.api.http.callers import org_of
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import AnyRequest, Query, body_of, query_of
from services.api.openapi.operation import get, put
from services.api.resources.agents.agents import AGENTS
from services.api.v1.read_model_responses import must_exist

PATH = "/v1/permissions/tools"
OF_AGENT = "/v1/agents/{agent_id:str}/permissions"
PERMISSIONS = Resource(
    kind="tool_permissions",
    view="tools.tool_permission_view",
    document="(select to_json(shown) from (select v.tools, v.capabilities) shown)",
)
NO_LIST = b'{"tools":null,"capabilities":null}'


class PermissionsWanted(BaseModel):
    """The new permissions; what is left out or null has no limit."""

    model_config = {"extra": "forbid"}

    tools: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=NAME_CHARS_MAX)]] | None,
        Field(max_length=TOOLS_OF_LIST_MAX),
    ] = None
    capabilities: Annotated[list[Capability] | None, Field(max_length=len(CAPABILITIES))] = None


class PermissionScope(Query):
    """The project whose list it is; the organisation's without."""

    project_id: Name | None = None


@get(PATH, "which tools may be called", query=PermissionScope)
async def retrieve_permissions(request: AnyRequest) -> Response[bytes]:
    """Say which tools may be called in the organisation, or in a project."""
    return await answer_list(request, *scope_of(request))


@put(PATH, "which tools may be called", query=PermissionScope, body=PermissionsWanted)
async def set_permissions(request: AnyRequest) -> Response[bytes]:
    """Say which tools may be called in the organisation, or in a project, from now on."""
    return await change_list(request, *scope_of(request))


@get(OF_AGENT, "which tools may be called")
async def retrieve_permissions_of_agent(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """Say which tools an agent may call."""
    await must_exist(request, AGENTS, agent_id)
    return await answer_list(request, "agent", agent_id)


@put(OF_AGENT, "which tools may be called", body=PermissionsWanted)
async def set_permissions_of_agent(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """Say which tools an agent may call from now on."""
    await must_exist(request, AGENTS, agent_id)
    return await change_list(request, "agent", agent_id)


def scope_of(request: AnyRequest) -> tuple[ScopeKind, str]:
    """The scope that a request names."""
    project_id = query_of(request, PermissionScope).project_id
    return ("project", project_id) if project_id else ("organisation", org_of(request))


async def answer_list(request: AnyRequest, kind: ScopeKind, scope_id: str) -> Response[bytes]:
    """The list of a scope; without one there is no limit."""
    reads, org = api_of(request).reads, org_of(request)
    return raw(await reads.one(PERMISSIONS, org, permissions_id(org, kind, scope_id)) or NO_LIST)


async def change_list(request: AnyRequest, kind: ScopeKind, scope_id: str) -> Response[bytes]:
    """The list of a scope as it is now."""
    wanted = AllowList.model_validate((await body_of(request, PermissionsWanted)).model_dump())
    command = SetToolPermissions(kind=kind, scope_id=scope_id, allowed=wanted)
    await api_of(request).send(request, command)
    return await answer_list(request, kind, scope_id)
