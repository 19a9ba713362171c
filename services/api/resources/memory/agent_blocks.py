"""The blocks of an agent: the same under both names that V1 has for them."""

from __future__ import annotations

from litestar import Response
from pydantic_core import from_json

from libs.contracts.agent.agents import AttachBlock, DetachBlock
from libs.contracts.letta import all_request_bodies as bodies
from libs.contracts.letta import error_bodies
from libs.contracts.memory.blocks import UpdateBlock
from services.api.adapters.resource_query_builder import filter_of
from services.api.http.callers import org_of
from services.api.http.encoded_slashes import last_segment
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import AnyRequest, Page, body_of, query_of, valid_id
from services.api.openapi.operation import get, patch
from services.api.resources.agents.agents import AGENTS
from services.api.resources.memory.blocks import BLOCKS
from services.api.v1.agent_documents import MEMORY
from services.api.v1.as_of import AsOf, seen_at
from services.api.v1.read_model_responses import answer_document, answer_page, must_exist
from services.api.v1.sleeptime import share_with_sleeptime_agents
from services.api.v1.state_size_checks import sized_block

PATHS = ["/v1/agents/{agent_id:str}/core-memory/blocks", "/v1/agents/{agent_id:str}/blocks"]
ATTACHED = "(select a.block_ids from agent.agent_view a where a.id = %(agent)s and a.org = %(org)s)"
IS_ATTACHED = f"v.id = any({ATTACHED}::text[])"


class AgentBlockPage(Page, AsOf):
    """A page of an agent's blocks."""


@get("/v1/agents/{agent_id:str}/core-memory", "memory", query=AsOf)
async def retrieve_memory(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """Retrieve the memory of an agent; with `at` as it was then."""
    async with seen_at(request, agent_id, query_of(request, AsOf).at):
        return await answer_document(request, AGENTS, agent_id, document=MEMORY)


@get(PATHS, "blocks", query=AgentBlockPage)
async def list_agent_blocks(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """List the blocks of an agent."""
    page = query_of(request, AgentBlockPage)
    attached = filter_of(page, org_of(request)).by_key(IS_ATTACHED, agent=agent_id)
    async with seen_at(request, agent_id, page.at):
        await must_exist(request, AGENTS, agent_id)
        return await answer_page(request, BLOCKS, page, attached)


@get([f"{path}/{{label:str}}" for path in PATHS], "block", query=AsOf)
async def retrieve_agent_block(request: AnyRequest, agent_id: str, label: str) -> Response[bytes]:
    """Retrieve a block of an agent by its label, or by its id; with `at` as it was then."""
    async with seen_at(request, agent_id, query_of(request, AsOf).at):
        return raw(await agent_block(request, agent_id, last_segment(request)))


@patch([f"{path}/{{label:str}}" for path in PATHS], "block", body=bodies.BlockUpdate)
async def update_agent_block(request: AnyRequest, agent_id: str, label: str) -> Response[bytes]:
    """Change a block of an agent by its label, or by its id."""
    body = await body_of(request, bodies.BlockUpdate)
    changes = sized_block(body.model_dump(mode="json", exclude_unset=True))
    block = from_json(await agent_block(request, agent_id, last_segment(request)))
    await api_of(request).send(request, UpdateBlock(block_id=block["id"], changes=changes))
    return raw(await agent_block(request, agent_id, block["id"]))


@patch([f"{path}/attach/{{block_id:str}}" for path in PATHS], "agent")
async def attach_block(request: AnyRequest, agent_id: str, block_id: str) -> Response[bytes]:
    """Attach a block to an agent."""
    valid_id("agent", agent_id)
    valid_id("block", block_id)
    await api_of(request).send(request, AttachBlock(agent_id=agent_id, block_id=block_id))
    await share_with_sleeptime_agents(request, agent_id, block_id)
    return await answer_document(request, AGENTS, agent_id)


@patch([f"{path}/detach/{{block_id:str}}" for path in PATHS], "agent")
async def detach_block(request: AnyRequest, agent_id: str, block_id: str) -> Response[bytes]:
    """Detach a block from an agent."""
    valid_id("agent", agent_id)
    valid_id("block", block_id)
    await api_of(request).send(request, DetachBlock(agent_id=agent_id, block_id=block_id))
    return await answer_document(request, AGENTS, agent_id)


async def agent_block(request: AnyRequest, agent_id: str, label_or_id: str) -> bytes:
    """The block of an agent that has this label or id; of several, the one attached first, which
    the model's tools edit too. Raises the 404 that names it."""
    reads = api_of(request).reads
    valid_id("agent", agent_id)
    named = filter_of(Page(), org_of(request)).by_key(IS_ATTACHED, agent=agent_id)
    named.add("(v.label = %(name)s or v.id = %(name)s)", name=label_or_id)
    order = f"array_position({ATTACHED}, v.id)"
    block = await reads.first(BLOCKS, named, order=order)
    if block is None:
        await must_exist(request, AGENTS, agent_id)
        raise Problem(404, error_bodies.block_label_not_found(label_or_id, agent_id))
    return block
