"""Memory blocks on their own."""

from __future__ import annotations

from typing import Annotated, Literal

from litestar import Response
from pydantic import AfterValidator, Field

from libs.contracts.letta import all_request_bodies as bodies
from libs.contracts.letta.blocks import created_block
from libs.contracts.letta.request_size_limits import Integer, Integers, Name, Names, SearchText
from libs.contracts.memory.blocks import CreateBlocks, DeleteBlock, UpdateBlock
from services.api.adapters.agents.identity_documents import HAS_IDENTIFIER_KEY, HAS_IDENTITY
from services.api.adapters.resource_query_builder import (
    Resource,
    Where,
    any_of,
    contains,
    filter_of,
)
from services.api.http.callers import org_of
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import (
    LONG_PAGE_BYTES_MAX,
    AnyRequest,
    Page,
    Query,
    body_of,
    query_of,
    valid_id,
)
from services.api.openapi.operation import delete, get, patch, post
from services.api.resources.agents.agents import AGENTS, Including, relationships
from services.api.v1.agent_documents import document_with
from services.api.v1.creation_defaults import complete_block
from services.api.v1.read_model_responses import (
    answer_count,
    answer_document,
    answer_page,
    document_of,
)
from services.api.v1.state_size_checks import sized_block

BLOCKS = Resource(
    kind="block",
    view="memory.block_view",
    document="v.document",
    created_view="memory.created_block_view",
    counted=("memory", "blocks"),
)
# V1 has both, and does the same.
PATHS = ["/v1/blocks", "/v1/_internal_blocks"]
# As in the index of tags: few blocks have any.
HAS_TAGS = "v.fields->'tags' <> '[]'"
AGENT_COUNT = (
    "coalesce((select c.agents from agent.block_agents_view c"
    " where c.block_id = v.id and c.org = v.org), 0)"
)
MORE = (
    "v.id in (select c.block_id from agent.block_agents_view c"
    ' where c.org collate "C" = %(org)s and c.agents > {})'
)


def unless_negative(least: int | None) -> int | None:
    """None for a number that every block has more agents than."""
    return None if least is None or least < 0 else least


class BlockFilters(Query):
    """Which blocks."""

    label: Annotated[Name | None, Where('v.label collate "C" = {}')] = None
    templates_only: Annotated[bool, Where("(v.fields->>'is_template')::boolean")] = False
    name: Annotated[Name | None, Where("v.fields->>'template_name' = {}", key=True)] = None
    tags: Annotated[
        Names | None, any_of(f"{HAS_TAGS} and v.fields->'tags' ?| {{}}", unless="match_all_tags")
    ] = None
    match_all_tags: Annotated[bool, any_of(f"{HAS_TAGS} and v.fields->'tags' ?& {{tags}}")] = False
    project_id: Annotated[Name | None, Where("v.fields->>'project_id' = {}", key=True)] = None


class BlockPage(Page, BlockFilters):
    """A page of blocks."""

    limit: Annotated[int | None, Field(ge=0, le=1_000)] = 50
    order_by: Literal["created_at"] = "created_at"
    identity_id: Annotated[Name | None, Where(HAS_IDENTITY, key=True)] = None
    identifier_keys: Annotated[Names | None, Where(HAS_IDENTIFIER_KEY, key=True)] = None
    label_search: Annotated[SearchText | None, contains("v.label")] = None
    description_search: Annotated[SearchText | None, contains("v.fields->>'description'")] = None
    value_search: Annotated[SearchText | None, contains("v.fields->>'value'")] = None
    connected_to_agents_count_gt: Annotated[
        Integer | None,
        AfterValidator(unless_negative),
        Where(f"{AGENT_COUNT} > {{}}", search=MORE),
    ] = None
    connected_to_agents_count_lt: Annotated[Integer | None, Where(f"{AGENT_COUNT} < {{}}")] = None
    connected_to_agents_count_eq: Annotated[
        Integers | None, Where(f"{AGENT_COUNT} = any({{}})")
    ] = None


class AttachedAgentPage(Page, Including):
    """A page of the agents that a block is attached to."""

    limit: Annotated[int | None, Field(ge=0, le=1_000)] = 50


@post(PATHS, "block", body=bodies.CreateBlock)
async def create_block(request: AnyRequest) -> Response[bytes]:
    """Create a memory block without an agent."""
    api = api_of(request)
    body = complete_block(await body_of(request, bodies.CreateBlock), api.defaults)
    sized_block(body.model_dump(mode="json"))
    block_id = api.new_id(request, "block")
    command = CreateBlocks(blocks=[created_block(body, block_id)])
    await api.send(request, command, message_id=f"create-{block_id}")
    return await answer_document(request, BLOCKS, block_id)


@get(PATHS, "blocks", query=BlockPage)
async def list_blocks(request: AnyRequest) -> Response[bytes]:
    """List memory blocks, the newest first."""
    page = query_of(request, BlockPage)
    return await answer_page(request, BLOCKS, page, bytes_max=LONG_PAGE_BYTES_MAX)


@get("/v1/blocks/count", "number of blocks", query=BlockFilters)
async def count_blocks(request: AnyRequest) -> Response[bytes]:
    """Count the memory blocks that match the filters."""
    found = filter_of(query_of(request, BlockFilters), org_of(request))
    return await answer_count(request, BLOCKS, found)


@get("/v1/blocks/{block_id:str}", "block")
async def retrieve_block(request: AnyRequest, block_id: str) -> Response[bytes]:
    """Retrieve a memory block by its id."""
    return await answer_document(request, BLOCKS, block_id)


@patch("/v1/blocks/{block_id:str}", "block", body=bodies.BlockUpdate)
async def update_block(request: AnyRequest, block_id: str) -> Response[bytes]:
    """Change the given fields of a memory block, for every agent that sees it."""
    valid_id("block", block_id)
    body = await body_of(request, bodies.BlockUpdate)
    changes = sized_block(body.model_dump(mode="json", exclude_unset=True))
    await api_of(request).send(request, UpdateBlock(block_id=block_id, changes=changes))
    return await answer_document(request, BLOCKS, block_id)


@delete([f"{path}/{{block_id:str}}" for path in PATHS], "nothing")
async def delete_block(request: AnyRequest, block_id: str) -> Response[bytes]:
    """Delete a memory block; no agent sees it any more."""
    await api_of(request).send(request, DeleteBlock(block_id=valid_id("block", block_id)))
    return raw(b"null")


@get([f"{path}/{{block_id:str}}/agents" for path in PATHS], "agents", query=AttachedAgentPage)
async def list_agents_of_block(request: AnyRequest, block_id: str) -> Response[bytes]:
    """List the agents that a block is attached to."""
    await document_of(request, BLOCKS, block_id)
    page = query_of(request, AttachedAgentPage)
    found = filter_of(page, org_of(request))
    attached = found.by_key("v.block_ids @> array[%(block)s]", block=block_id)
    shown = document_with(relationships(request, page))
    return await answer_page(
        request, AGENTS, page, attached, document=shown, bytes_max=LONG_PAGE_BYTES_MAX
    )
