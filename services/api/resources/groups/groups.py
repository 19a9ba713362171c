"""Groups of agents, as V1 has them."""

from __future__ import annotations

from typing import Annotated, Literal

from litestar import Response
from pydantic import Field

from libs.contracts.bus_messages import JsonObject
from libs.contracts.groups.groups import (
    AttachGroupBlock,
    CreateGroup,
    DeleteGroup,
    DetachGroupBlock,
    GroupConfig,
    ManagerType,
    ShareGroupBlocks,
    UpdateGroup,
)
from libs.contracts.letta import all_request_bodies as bodies
from libs.contracts.letta.group_requests import config_fields
from libs.contracts.letta.request_size_limits import Name
from services.api.adapters.resource_query_builder import (
    NOT_HIDDEN,
    Filter,
    Resource,
    Where,
    filter_of,
)
from services.api.http.callers import org_of
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import AnyRequest, Page, Query, body_of, query_of, valid_id
from services.api.openapi.operation import delete, get, patch, post
from services.api.resources.agents.agents import AGENTS
from services.api.v1.read_model_responses import (
    answer_count,
    answer_document,
    answer_page,
    must_exist,
)

GROUPS = Resource(
    kind="group",
    view="groups.group_view",
    document="v.document",
    created_view="groups.created_group_view",
    counted=("groups", "groups"),
)
GROUP = "/v1/groups/{group_id:str}"
OF_MEMBER = (
    "v.id = any(array(select group_id from groups.group_member_view"
    " where agent_id = %(agent)s and org = %(org)s))"
)
# Commands that have the agents see the blocks of their group; one shares a hundred.
SHARINGS_MAX = 30


def paths(suffix: str) -> list[str]:
    """The paths of an operation, under both names of groups."""
    return [f"{group}{suffix}" for group in (GROUP, "/v1/agent-groups/{group_id:str}")]


class GroupFilters(Query):
    """Which groups."""

    manager_type: Annotated[ManagerType | None, Where("v.manager_type = {}", key=True)] = None
    project_id: Annotated[Name | None, Where("v.fields->>'project_id' = {}", key=True)] = None
    show_hidden_groups: bool | None = None


class GroupPage(Page, GroupFilters):
    """A page of groups."""

    limit: Annotated[int | None, Field(ge=0, le=1_000)] = 50
    order: Literal["asc", "desc"] = "asc"
    order_by: Literal["created_at"] = "created_at"


class GroupOfAgentPage(Page):
    """A page of the groups that an agent is in."""

    order_by: Literal["created_at"] = "created_at"
    manager_type: Annotated[ManagerType | None, Where("v.manager_type = {}", key=True)] = None


@post("/v1/groups", "group", body=bodies.GroupCreate)
async def create_group(request: AnyRequest) -> Response[bytes]:
    """Create a group of agents; without a manager config they answer in turn."""
    body = await body_of(request, bodies.GroupCreate)
    group_id = await make_group(request, config_fields(body), {})
    return await answer_document(request, GROUPS, group_id)


async def make_group(request: AnyRequest, fields: JsonObject, shared_state: JsonObject) -> str:
    """Make a group whose agents see its blocks; returns its id."""
    api = api_of(request)
    group_id = api.new_id(request, "group")
    config = GroupConfig.model_validate(fields)
    command = CreateGroup(group_id=group_id, config=config, shared_state=shared_state)
    await api.send(request, command, message_id=f"create-{group_id}")
    if config.shared_block_ids:
        await share_blocks(request, group_id)
    return group_id


async def share_blocks(request: AnyRequest, group_id: str) -> None:
    """Have the agents of a group see its blocks before the client is answered. Where this process
    dies before, the groups service does it."""
    api = api_of(request)
    for _ in range(SHARINGS_MAX):
        command = ShareGroupBlocks(group_id=group_id)
        reply = await api.send(request, command, message_id=api.ids.new("cmd"), keyed=False)
        if not reply.result.get("left"):
            return


@get("/v1/groups", "groups", query=GroupPage)
async def list_groups(request: AnyRequest) -> Response[bytes]:
    """List groups, the oldest first."""
    page = query_of(request, GroupPage)
    return await answer_page(request, GROUPS, page, shown_groups(request, page))


def shown_groups(request: AnyRequest, asked: GroupFilters) -> Filter:
    """The groups that a client asks for; hidden ones only where it says so."""
    found = filter_of(asked, org_of(request))
    return found if asked.show_hidden_groups else found.add(NOT_HIDDEN)


@get("/v1/groups/count", "number of groups")
async def count_groups(request: AnyRequest) -> Response[bytes]:
    """Count all groups, hidden ones too."""
    return await answer_count(request, GROUPS, filter_of(Query(), org_of(request)))


@get(GROUP, "group")
async def retrieve_group(request: AnyRequest, group_id: str) -> Response[bytes]:
    """Retrieve a group by its id."""
    return await answer_document(request, GROUPS, group_id)


@patch(GROUP, "group", body=bodies.GroupUpdate)
async def modify_group(request: AnyRequest, group_id: str) -> Response[bytes]:
    """Change the given fields of a group."""
    valid_id("group", group_id)
    body = await body_of(request, bodies.GroupUpdate)
    await change_group(request, group_id, config_fields(body))
    return await answer_document(request, GROUPS, group_id)


async def change_group(request: AnyRequest, group_id: str, changes: JsonObject) -> None:
    """Change a group; its agents see its blocks afterwards."""
    await api_of(request).send(request, UpdateGroup(group_id=group_id, changes=changes))
    if {"agent_ids", "shared_block_ids", "manager_agent_id"} & changes.keys():
        await share_blocks(request, group_id)


@delete(paths(""), "message")
async def delete_group(request: AnyRequest, group_id: str) -> JsonObject:
    """Delete a group; its agents stay, without the blocks that it shared with them."""
    await api_of(request).send(request, DeleteGroup(group_id=valid_id("group", group_id)))
    await share_blocks(request, group_id)
    return {"message": f"Group id={group_id} successfully deleted"}


@patch(paths("/blocks/attach/{block_id:str}"), "nothing")
async def attach_block_to_group(
    request: AnyRequest, group_id: str, block_id: str
) -> Response[bytes]:
    """Share a block with all agents of a group; twice is once."""
    command = AttachGroupBlock(
        group_id=valid_id("group", group_id), block_id=valid_id("block", block_id)
    )
    await api_of(request).send(request, command)
    await share_blocks(request, group_id)
    return raw(b"null")


@patch(paths("/blocks/detach/{block_id:str}"), "nothing")
async def detach_block_from_group(
    request: AnyRequest, group_id: str, block_id: str
) -> Response[bytes]:
    """Share a block with the agents of a group no more; twice is once."""
    command = DetachGroupBlock(
        group_id=valid_id("group", group_id), block_id=valid_id("block", block_id)
    )
    await api_of(request).send(request, command)
    await share_blocks(request, group_id)
    return raw(b"null")


@get("/v1/agents/{agent_id:str}/groups", "groups", query=GroupOfAgentPage)
async def list_groups_for_agent(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """List the groups that an agent is a member of, the newest first."""
    page = query_of(request, GroupOfAgentPage)
    await must_exist(request, AGENTS, agent_id)
    found = filter_of(page, org_of(request)).by_key(OF_MEMBER, agent=agent_id)
    return await answer_page(request, GROUPS, page, found)
