"""Agents, blocks and groups of deployments of templates that are kept elsewhere, as V1 has them."""

from __future__ import annotations

from typing import Annotated, Any, cast

from litestar import Response
from pydantic import Field
from pydantic_core import to_json

from libs.contracts.bus_messages import JsonObject
from libs.contracts.groups.groups import DeleteGroup
from libs.contracts.letta import all_request_bodies as bodies
from libs.contracts.letta.blocks import BlockState, created_block
from libs.contracts.letta.group_requests import config_fields
from libs.contracts.letta.request_size_limits import NAMES_MAX, Name
from libs.contracts.memory.blocks import CreateBlocks, DeleteBlock
from libs.contracts.state_size_limits import oversize_new_blocks
from libs.contracts.tools.base_tools.catalogue import CATALOGUE
from services.api.adapters.templates.template_queries import TemplateQueries
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import AnyRequest, Query, body_of, query_of
from services.api.openapi.operation import delete, get, post
from services.api.resources.agents.agents import created_agent, deleted_agent
from services.api.resources.groups.groups import GROUPS, make_group, share_blocks
from services.api.resources.memory.blocks import BLOCKS
from services.api.v1.read_model_responses import answer_document, document_of
from services.api.v1.state_size_checks import sized_block, unless
from services.api.v1.template_names import without_nul

# What one request lists, and what one request deletes.
ENTITIES_MAX = 1_000
PATH = "/v1/_internal_templates"
DEPLOYMENT = f"{PATH}/deployment/{{deployment_id:str}}"
KINDS = ("block", "agent", "group")


class EntityTypes(Query):
    """Which kinds of entities; several, or one text with commas. Unknown ones count as none."""

    entity_types: Annotated[list[Name], Field(default_factory=list, max_length=NAMES_MAX)]


@post(f"{PATH}/agents", "agent", body=bodies.InternalTemplateAgentCreate)
async def create_template_agent(request: AnyRequest) -> Response[bytes]:
    """Create an agent of a deployment. As in V1 it is made without tools that are not there."""
    body = await body_of(request, bodies.InternalTemplateAgentCreate)
    api = api_of(request)
    agent_id = api.new_id(request, "agent")
    if body.tool_ids:
        queries = TemplateQueries(api.reads.database)
        known = {*CATALOGUE, *await queries.known_tools(org_of(request), body.tool_ids)}
        kept = [tool_id for tool_id in body.tool_ids if tool_id in known]
        body = body.model_copy(update={"tool_ids": kept})
    document = await created_agent(
        request, body, agent_id, deployment_id=body.deployment_id, entity_id=body.entity_id
    )
    return raw(document)


@post(f"{PATH}/groups", "group", body=bodies.InternalTemplateGroupCreate)
async def create_template_group(request: AnyRequest) -> Response[bytes]:
    """Create a group of a deployment."""
    body = await body_of(request, bodies.InternalTemplateGroupCreate)
    group_id = await make_group(request, config_fields(body), {})
    return await answer_document(request, GROUPS, group_id)


@post(f"{PATH}/blocks", "block", body=bodies.InternalTemplateBlockCreate)
async def create_template_block(request: AnyRequest) -> Response[bytes]:
    """Create a block of a deployment."""
    body = await body_of(request, bodies.InternalTemplateBlockCreate)
    sized_block(body.model_dump(mode="json"))
    [block_id] = await make_blocks(request, [body])
    return await answer_document(request, BLOCKS, block_id)


@post(f"{PATH}/blocks/batch", "blocks", body=bodies.InternalTemplateBlocks)
async def create_template_blocks(request: AnyRequest) -> Response[bytes]:
    """Create blocks of a deployment, all or none of them."""
    body = await body_of(request, bodies.InternalTemplateBlocks)
    sizes = [block.model_dump(mode="json") for block in body.root]
    unless(oversize_new_blocks(sizes), {})
    made = await make_blocks(request, body.root)
    documents = [await document_of(request, BLOCKS, block_id) for block_id in made]
    return raw(b"[%b]" % b",".join(documents))


async def make_blocks(
    request: AnyRequest, wanted: list[bodies.InternalTemplateBlockCreate]
) -> list[str]:
    """Make blocks; returns their ids."""
    api = api_of(request)
    blocks: list[BlockState] = [
        created_block(block, api.new_id(request, "block", "template", str(number)))
        for number, block in enumerate(wanted)
    ]
    if blocks:
        command = CreateBlocks(blocks=blocks)
        await api.send(request, command, message_id=f"create-{blocks[0].id}")
    return [block.id for block in blocks]


@get(DEPLOYMENT, "entities of a deployment", query=EntityTypes)
async def list_deployment_entities(request: AnyRequest, deployment_id: str) -> JsonObject:
    """List the blocks, agents and groups that say that they are of a deployment."""
    asked = query_of(request, EntityTypes).entity_types
    named = [kind.strip().lower() for text in asked for kind in text.split(",")]
    kinds = [kind for kind in KINDS if kind in named] or [*KINDS]
    found = [
        entity for entity in await entities_of(request, deployment_id) if entity["type"] in kinds
    ]
    message = f"Found {len(found)} entities for deployment {deployment_id}"
    if asked:
        message += f" (filtered by types: {', '.join(kinds)})"
    return {
        "entities": [*found],
        "total_count": len(found),
        "deployment_id": deployment_id,
        "message": message,
    }


async def entities_of(request: AnyRequest, deployment_id: str) -> list[JsonObject]:
    """The entities of a deployment, up to as many as one request is about."""
    queries = TemplateQueries(api_of(request).reads.database)
    return await queries.entities(org_of(request), without_nul(deployment_id), ENTITIES_MAX)


@delete(DEPLOYMENT, "what was deleted")
async def delete_deployment(request: AnyRequest, deployment_id: str) -> Response[bytes]:
    """Delete the blocks, agents and groups that say that they are of a deployment: as many as one
    request lists, so that it is repeated for more."""
    deleted: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for entity in await entities_of(request, deployment_id):
        kind, entity_id = cast(str, entity["type"]), cast(str, entity["id"])
        if await is_deleted(request, kind, entity_id):
            deleted[kind].append(entity_id)
    total = sum(len(ids) for ids in deleted.values())
    answer: dict[str, Any] = {f"deleted_{kind}s": ids for kind, ids in deleted.items()}
    message = f"Successfully deleted {total} entities from deployment {deployment_id}"
    return raw(to_json({**answer, "message": message}))


async def is_deleted(request: AnyRequest, kind: str, entity_id: str) -> bool:
    """Delete an entity; returns whether it was there."""
    api = api_of(request)
    name = api.new_id(request, "cmd", "delete", entity_id)
    try:
        match kind:
            case "block":
                command = DeleteBlock(block_id=entity_id)
                await api.send(request, command, message_id=name, keyed=False)
            case "agent":
                await deleted_agent(request, entity_id, name)
            case _:
                group = DeleteGroup(group_id=entity_id)
                await api.send(request, group, message_id=name, keyed=False)
                await share_blocks(request, entity_id)
    except Problem as problem:
        if problem.status == 404:
            return False
        raise
    return True
