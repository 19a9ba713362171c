"""Memory blocks on their own."""

from __future__ import annotations

from typing import Annotated, Literal

from litestar import Response, delete, get, patch, post
from pydantic import Field

from libs.contracts.letta import requests
from libs.contracts.letta.blocks import created_block
from libs.contracts.letta.limits import Integer, Integers, Name, Names, SearchText
from libs.contracts.memory import CreateBlocks, DeleteBlock, UpdateBlock
from services.api.adapters.reads import Filter, containing
from services.api.http.agents import Including, relationships
from services.api.http.described import described
from services.api.http.reading import AnyRequest, Page, Query, body_of, query_of, valid_id
from services.api.http.shared import ORG, api_of, missing, raw, slice_of
from services.api.http.state_size import sized_block


class BlockFilters(Query):
    """Which blocks."""

    label: Name | None = None
    templates_only: bool = False
    name: Name | None = None
    tags: Names | None = None
    match_all_tags: bool = False
    project_id: Name | None = None


class BlockPage(Page, BlockFilters):
    """A page of blocks."""

    limit: Annotated[int | None, Field(ge=0, le=1_000)] = 50
    order_by: Literal["created_at"] = "created_at"
    identity_id: Name | None = None
    identifier_keys: Names | None = None
    label_search: SearchText | None = None
    description_search: SearchText | None = None
    value_search: SearchText | None = None
    connected_to_agents_count_gt: Integer | None = None
    connected_to_agents_count_lt: Integer | None = None
    connected_to_agents_count_eq: Integers | None = None


class HolderPage(Page, Including):
    """A page of the agents that see a block."""

    limit: Annotated[int | None, Field(ge=0, le=1_000)] = 50


@post("/v1/blocks", status_code=200, opt=described("block", body=requests.CreateBlock))
async def create_block(request: AnyRequest) -> Response[bytes]:
    """Create a memory block."""
    api = api_of(request)
    body = await body_of(request, requests.CreateBlock)
    sized_block(body.model_dump(mode="json"))
    block_id = api.new_id(request, "block")
    command = CreateBlocks(blocks=[created_block(body, block_id)])
    await api.send(request, command, message_id=f"create-{block_id}")
    return raw(await block(request, block_id))


@get("/v1/blocks", opt=described("blocks", query=BlockPage))
async def list_blocks(request: AnyRequest) -> Response[bytes]:
    """List memory blocks, the newest first."""
    page = query_of(request, BlockPage)
    filters = block_filter(page)
    for name in ("label", "description", "value"):
        pattern = containing(getattr(page, f"{name}_search"))
        filters.add(f"v.doc->>'{name}' ilike %({name}_like)s", f"{name}_like", pattern)
    holders = "(select count(*) from agent.agent_view a where a.block_ids @> array[v.id])"
    filters.add(f"{holders} > %(gt)s", "gt", page.connected_to_agents_count_gt)
    filters.add(f"{holders} < %(lt)s", "lt", page.connected_to_agents_count_lt)
    filters.add(f"{holders} = any(%(eq)s)", "eq", page.connected_to_agents_count_eq)
    if page.identity_id or page.identifier_keys:
        filters.conditions.append("false")
    reads = api_of(request).reads
    return raw(await reads.page("memory.block_view", "v.document", filters, slice_of(page)))


@get("/v1/blocks/count", opt=described("number of blocks", query=BlockFilters))
async def count_blocks(request: AnyRequest) -> Response[bytes]:
    """Count memory blocks."""
    filters = block_filter(query_of(request, BlockFilters))
    return raw(str(await api_of(request).reads.count("memory.block_view", filters)).encode())


@get("/v1/blocks/{block_id:str}", opt=described("block"))
async def retrieve_block(request: AnyRequest, block_id: str) -> Response[bytes]:
    """Retrieve a memory block."""
    return raw(await block(request, valid_id("block", block_id)))


@patch("/v1/blocks/{block_id:str}", opt=described("block", body=requests.BlockUpdate))
async def update_block(request: AnyRequest, block_id: str) -> Response[bytes]:
    """Change the given fields of a memory block, for every agent that sees it."""
    valid_id("block", block_id)
    body = await body_of(request, requests.BlockUpdate)
    changes = sized_block(body.model_dump(mode="json", exclude_unset=True))
    await api_of(request).send(request, UpdateBlock(block_id=block_id, changes=changes))
    return raw(await block(request, block_id))


@delete("/v1/blocks/{block_id:str}", status_code=200, opt=described("nothing"))
async def delete_block(request: AnyRequest, block_id: str) -> Response[bytes]:
    """Delete a memory block; no agent sees it any more."""
    await api_of(request).send(request, DeleteBlock(block_id=valid_id("block", block_id)))
    return raw(b"null")


@get("/v1/blocks/{block_id:str}/agents", opt=described("agents", query=HolderPage))
async def list_agents_of_block(request: AnyRequest, block_id: str) -> Response[bytes]:
    """List the agents that see a block."""
    await block(request, valid_id("block", block_id))
    page = query_of(request, HolderPage)
    holders = Filter(["a.org = %(org)s"], {"org": ORG})
    holders.add("a.block_ids @> array[%(block)s]", "block", block_id)
    shown = relationships(request, page)
    return raw(await api_of(request).reads.agents(holders, slice_of(page), shown))


async def block(request: AnyRequest, block_id: str) -> bytes:
    """The document of a block; raises the 404 that names it."""
    document = await api_of(request).reads.one(
        "select document from memory.block_view where id = %s and org = %s", [block_id, ORG]
    )
    if document is None:
        raise missing("block", block_id)
    return document


def block_filter(asked: BlockFilters) -> Filter:
    """The conditions of a query for blocks."""
    filters = Filter(["v.org = %(org)s"], {"org": ORG})
    filters.add("v.label = %(label)s", "label", asked.label)
    filters.add("v.doc->>'template_name' = %(name)s", "name", asked.name)
    filters.add("v.doc->>'project_id' = %(project)s", "project", asked.project_id)
    tagged = "?&" if asked.match_all_tags else "?|"
    filters.add(f"v.doc->'tags' {tagged} %(tags)s", "tags", asked.tags)
    if asked.templates_only:
        filters.conditions.append("(v.doc->>'is_template')::boolean")
    return filters
