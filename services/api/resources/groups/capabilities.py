"""Capabilities of agents: declared, withdrawn and found. V1 has none."""

from __future__ import annotations

from typing import Annotated

from litestar import Response
from pydantic import BaseModel, Field

from libs.contracts.agent.agents import DeclareCapability, WithdrawCapability
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.capabilities import Capability, CapabilityName, Priority
from libs.contracts.letta.request_size_limits import Name, Text
from services.api.adapters.groups.capability_queries import CapabilityQueries
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import (
    PAGE_ITEMS_MAX,
    AnyRequest,
    Query,
    parse,
    query_of,
    valid_id,
    valid_name,
)
from services.api.openapi.operation import delete, get, put

OF_AGENT = "/v1/agents/{agent_id:str}/capabilities/{capability:str}"


class CapabilityPage(Query):
    """Which part of the list of capabilities; the cursor is a name."""

    after: Name | None = None
    limit: Annotated[int | None, Field(ge=0, le=PAGE_ITEMS_MAX)] = 100


class AgentsShown(Query):
    """The number of agents to show."""

    limit: Annotated[int | None, Field(ge=0, le=PAGE_ITEMS_MAX)] = 100


class CapabilityWanted(BaseModel):
    """The fields of a capability besides its name."""

    description: Text | None = None
    priority: Priority = 0


class NamedCapability(BaseModel):
    """The name of a capability in a path."""

    capability: CapabilityName


@get("/v1/capabilities", "capabilities", query=CapabilityPage)
async def list_capabilities(request: AnyRequest) -> Response[bytes]:
    """List what agents declare that they can do, with the number of agents, by name."""
    page = query_of(request, CapabilityPage)
    queries = CapabilityQueries(api_of(request).reads.database)
    return raw(await queries.names(org_of(request), page.after, page.limit))


@get("/v1/capabilities/{capability:str}/agents", "agents with a capability", query=AgentsShown)
async def list_capable_agents(request: AnyRequest, capability: str) -> Response[bytes]:
    """List the agents that declare a capability, the most available first."""
    shown = query_of(request, AgentsShown)
    queries = CapabilityQueries(api_of(request).reads.database)
    valid_name(NamedCapability, "capability", capability)
    found = await queries.agents(org_of(request), capability, shown.limit)
    if found == b"[]" and shown.limit != 0:
        raise Problem(404, {"detail": f"No agent declares the capability '{capability}'"})
    return raw(found)


@put(OF_AGENT, "capability", body=CapabilityWanted)
async def declare_capability(request: AnyRequest, agent_id: str, capability: str) -> JsonObject:
    """Declare that an agent can do something; what it said of that before is replaced."""
    name = valid_name(NamedCapability, "capability", capability)
    wanted = parse(await request.body() or b"{}", CapabilityWanted)
    declared = Capability(name=name, **wanted.model_dump())
    command = DeclareCapability(agent_id=valid_id("agent", agent_id), capability=declared)
    await api_of(request).send(request, command)
    return {"agent_id": agent_id, **declared.model_dump(mode="json")}


@delete(OF_AGENT, "message")
async def withdraw_capability(request: AnyRequest, agent_id: str, capability: str) -> JsonObject:
    """Declare that an agent does not do something any more."""
    command = WithdrawCapability(agent_id=valid_id("agent", agent_id), name=capability)
    await api_of(request).send(request, command)
    return {"message": f"Agent {agent_id} does not declare '{capability}' any more"}
