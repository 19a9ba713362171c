"""Groups of agents with what V1 lacks: names, members one by one, and a shared state."""

from __future__ import annotations

from typing import Annotated, Literal

from litestar import Response
from pydantic import Field
from pydantic_core import to_json

from libs.contracts.groups.groups import AddMember, RemoveMember, UpdateGroupState
from libs.contracts.letta import all_request_bodies as bodies
from libs.contracts.letta.group_requests import config_fields
from libs.contracts.letta.request_size_limits import Name
from services.api.adapters.resource_query_builder import Filter, Resource, Where, any_of
from services.api.http.callers import org_of
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import (
    PAGE_BYTES_MAX,
    AnyRequest,
    Page,
    body_of,
    query_of,
    valid_id,
)
from services.api.openapi.operation import delete, get, patch, post
from services.api.resources.groups.groups import (
    GROUPS,
    GroupFilters,
    change_group,
    make_group,
    share_blocks,
    shown_groups,
)
from services.api.v1.read_model_responses import (
    answer_count,
    answer_document,
    answer_page,
    must_exist,
)

AGENT_GROUP = "v.agent_group"
STATE = "jsonb_build_object('state', v.shared_state, 'version', v.state_version)"
MEMBERS = Resource(
    kind="agent",
    view=(
        "(select m.agent_id as id, m.group_id, m.org, m.joined_at as created_at, m.position,"
        " a.name, a.fields from groups.group_member_view m join agent.agent_view a"
        " on a.id = m.agent_id and a.org = m.org)"
    ),
    document=(
        "jsonb_build_object('agent_id', v.id, 'name', v.name,"
        " 'description', v.fields->'description', 'joined_at', v.created_at, 'capabilities',"
        " (select coalesce(jsonb_agg(c.name order by c.name), '[]')"
        " from agent.agent_capability_view c where c.agent_id = v.id and c.org = v.org),"
        " 'position', v.position - 1)"
    ),
)
GROUP = "/v1/agent-groups/{group_id:str}"


class AgentGroupFilters(GroupFilters):
    """Which groups."""

    name: Annotated[Name | None, Where("v.name = {}", key=True)] = None
    agent_id: Annotated[Name | None, any_of("v.agent_ids @> array[{}]")] = None


class AgentGroupPage(Page, AgentGroupFilters):
    """A page of groups."""

    limit: Annotated[int | None, Field(ge=0, le=1_000)] = 50
    order_by: Literal["created_at"] = "created_at"


@post("/v1/agent-groups", "agent group", body=bodies.AgentGroupCreate)
async def create_agent_group(request: AnyRequest) -> Response[bytes]:
    """Create a group of agents with a shared state."""
    body = await body_of(request, bodies.AgentGroupCreate)
    group_id = await make_group(request, config_fields(body), body.shared_state)
    return await answer_document(request, GROUPS, group_id, document=AGENT_GROUP)


@get("/v1/agent-groups", "agent groups", query=AgentGroupPage)
async def list_agent_groups(request: AnyRequest) -> Response[bytes]:
    """List groups, the newest first."""
    page = query_of(request, AgentGroupPage)
    found = shown_groups(request, page)
    return await answer_page(
        request, GROUPS, page, found, document=AGENT_GROUP, bytes_max=PAGE_BYTES_MAX
    )


@get("/v1/agent-groups/count", "number of groups", query=AgentGroupFilters)
async def count_agent_groups(request: AnyRequest) -> Response[bytes]:
    """Count the groups that match the filters."""
    found = shown_groups(request, query_of(request, AgentGroupFilters))
    return await answer_count(request, GROUPS, found)


@get(GROUP, "agent group")
async def retrieve_agent_group(request: AnyRequest, group_id: str) -> Response[bytes]:
    """Retrieve a group with its shared state."""
    return await answer_document(request, GROUPS, group_id, document=AGENT_GROUP)


@patch(GROUP, "agent group", body=bodies.AgentGroupUpdate)
async def update_agent_group(request: AnyRequest, group_id: str) -> Response[bytes]:
    """Change the given fields of a group."""
    valid_id("group", group_id)
    body = await body_of(request, bodies.AgentGroupUpdate)
    await change_group(request, group_id, config_fields(body))
    return await answer_document(request, GROUPS, group_id, document=AGENT_GROUP)


@get(f"{GROUP}/members", "members of a group")
async def list_group_members(request: AnyRequest, group_id: str) -> Response[bytes]:
    """List the members of a group in their order, with their names and when they joined."""
    await must_exist(request, GROUPS, group_id)
    values = {"org": org_of(request), "group": group_id}
    found = Filter(["v.group_id = %(group)s", "v.org = %(org)s"], values)
    return raw(await api_of(request).reads.all(MEMBERS, found, order="v.position"))


@post(f"{GROUP}/members", "agent group", body=bodies.GroupMemberCreate)
async def add_group_member(request: AnyRequest, group_id: str) -> Response[bytes]:
    """Have an agent join a group, as its last member; twice is once."""
    valid_id("group", group_id)
    body = await body_of(request, bodies.GroupMemberCreate)
    await api_of(request).send(request, AddMember(group_id=group_id, agent_id=body.agent_id))
    await share_blocks(request, group_id)
    return await answer_document(request, GROUPS, group_id, document=AGENT_GROUP)


@delete(f"{GROUP}/members/{{agent_id:str}}", "agent group")
async def remove_group_member(request: AnyRequest, group_id: str, agent_id: str) -> Response[bytes]:
    """Have an agent leave a group."""
    valid_id("group", group_id)
    command = RemoveMember(group_id=group_id, agent_id=valid_id("agent", agent_id))
    await api_of(request).send(request, command)
    await share_blocks(request, group_id)
    return await answer_document(request, GROUPS, group_id, document=AGENT_GROUP)


@get(f"{GROUP}/state", "state of a group")
async def retrieve_group_state(request: AnyRequest, group_id: str) -> Response[bytes]:
    """Retrieve the shared state of a group, and its version."""
    return await answer_document(request, GROUPS, group_id, document=STATE)


@patch(f"{GROUP}/state", "state of a group", body=bodies.GroupStateUpdate)
async def update_group_state(request: AnyRequest, group_id: str) -> Response[bytes]:
    """Write the shared state of a group; the answer is what it is now."""
    valid_id("group", group_id)
    body = await body_of(request, bodies.GroupStateUpdate)
    command = UpdateGroupState(group_id=group_id, document=body.state, version=body.version)
    reply = await api_of(request).send(request, command)
    return raw(to_json(reply.result))
