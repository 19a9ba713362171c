"""Agents and their blocks."""

from __future__ import annotations

from typing import Annotated, Literal

from litestar import Response, delete, get, patch, post
from pydantic import Field
from pydantic_core import from_json, to_json

from libs.contracts.agent import AttachBlock, CreateAgent, DeleteAgent, DetachBlock, UpdateAgent
from libs.contracts.letta import errors, requests
from libs.contracts.letta.limits import NAMES_MAX, Name, Names, SearchText
from libs.contracts.memory import UpdateBlock
from libs.contracts.message import JsonObject
from services.api.adapters.reads import ALL_RELATIONSHIPS, Filter, containing, cut
from services.api.http.described import described
from services.api.http.problems import Problem
from services.api.http.reading import AnyRequest, Page, Query, body_of, query_of, valid_id
from services.api.http.shared import ORG, api_of, found, missing, raw, slice_of
from services.api.http.state_size import sized_agent, sized_block, sized_creation

SECRET_FIELDS = ("secrets", "tool_exec_environment_variables")

Relationship = Literal[
    "agent.blocks",
    "agent.identities",
    "agent.managed_group",
    "agent.pending_approval",
    "agent.secrets",
    "agent.sources",
    "agent.tags",
    "agent.tools",
]


class Including(Query):
    """Which relationships to show."""

    include: Annotated[list[Relationship], Field(default_factory=list, max_length=NAMES_MAX)]
    include_relationships: Names | None = None


class AgentFilters(Query):
    """Which agents."""

    name: Name | None = None
    tags: Names | None = None
    match_all_tags: bool = False
    query_text: SearchText | None = None
    project_id: Name | None = None
    template_id: Name | None = None
    base_template_id: Name | None = None
    identity_id: Name | None = None
    identifier_keys: Names | None = None
    created_by_id: Name | None = None
    last_stop_reason: Name | None = None


class AgentPage(Page, Including, AgentFilters):
    """A page of agents."""

    limit: Annotated[int | None, Field(ge=0, le=1_000)] = 50
    order_by: Literal["created_at", "updated_at", "last_run_completion"] = "created_at"


class ToolPage(Page):
    """A page of an agent's tools."""

    limit: Annotated[int | None, Field(ge=0, le=1_000)] = 100
    order: Literal["asc", "desc"] = "asc"


class BlockPage(Page):
    """A page of an agent's blocks."""


@post("/v1/agents", status_code=200, opt=described("agent", body=requests.CreateAgent))
async def create_agent(request: AnyRequest) -> Response[bytes]:
    """Create an agent."""
    api = api_of(request)
    body = await body_of(request, requests.CreateAgent)
    refuse_secrets(body)
    agent_id = api.new_id(request, "agent")
    wanted = sized_creation(body.model_dump(mode="json", exclude_unset=True))
    command = CreateAgent(agent_id=agent_id, request=wanted)
    await api.send(request, command, message_id=f"create-{agent_id}")
    return found(await api.reads.agent(ORG, agent_id, ALL_RELATIONSHIPS), "agent", agent_id)


def refuse_secrets(body: requests.CreateAgent | requests.UpdateAgent) -> None:
    """Refuse secrets before there is a command: the bus would store them with it."""
    for field in SECRET_FIELDS:
        if getattr(body, field):
            detail = f"`{field}`: tool secrets are not built yet: leave the field out"
            raise Problem(400, {"detail": detail})


@get("/v1/agents", opt=described("agents", query=AgentPage))
async def list_agents(request: AnyRequest) -> Response[bytes]:
    """List agents, the newest first."""
    page = query_of(request, AgentPage)
    filters = agent_filter(page)
    shown = relationships(request, page)
    reads = api_of(request).reads
    return raw(await reads.agents(filters, slice_of(page), shown, key=page.order_by))


@get("/v1/agents/count", opt=described("number of agents", query=AgentFilters))
async def count_agents(request: AnyRequest) -> Response[bytes]:
    """Count agents."""
    filters = agent_filter(query_of(request, AgentFilters))
    count = await api_of(request).reads.count("agent.agent_view", filters, alias="a")
    return raw(str(count).encode())


@get("/v1/agents/{agent_id:str}", opt=described("agent", query=Including))
async def retrieve_agent(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """Retrieve an agent."""
    shown = relationships(request, query_of(request, Including))
    reads = api_of(request).reads
    return found(await reads.agent(ORG, valid_id("agent", agent_id), shown), "agent", agent_id)


@patch("/v1/agents/{agent_id:str}", opt=described("agent", body=requests.UpdateAgent))
async def update_agent(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """Change the given fields of an agent."""
    api = api_of(request)
    valid_id("agent", agent_id)
    body = await body_of(request, requests.UpdateAgent)
    refuse_secrets(body)
    changes = sized_agent(body.model_dump(mode="json", exclude_unset=True))
    await api.send(request, UpdateAgent(agent_id=agent_id, request=changes))
    return found(await api.reads.agent(ORG, agent_id, ALL_RELATIONSHIPS), "agent", agent_id)


@delete("/v1/agents/{agent_id:str}", status_code=200, opt=described("message"))
async def delete_agent(request: AnyRequest, agent_id: str) -> JsonObject:
    """Delete an agent with its messages, its runs, and the blocks that only it has."""
    await api_of(request).send(request, DeleteAgent(agent_id=valid_id("agent", agent_id)))
    return {"message": f"Agent id={agent_id} successfully deleted"}


@get("/v1/agents/{agent_id:str}/tools", opt=described("tools", query=ToolPage))
async def list_agent_tools(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """List the tools of an agent."""
    page = query_of(request, ToolPage)
    tools = await api_of(request).reads.agent_tools(ORG, valid_id("agent", agent_id))
    if tools is None:
        raise missing("agent", agent_id)
    return raw(to_json(cut(tools, slice_of(page))))


# Blocks of an agent: the same under both names that V1 has for them.


@get("/v1/agents/{agent_id:str}/core-memory", opt=described("memory"))
async def retrieve_memory(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """Retrieve the memory of an agent."""
    reads = api_of(request).reads
    return found(await reads.agent_memory(ORG, valid_id("agent", agent_id)), "agent", agent_id)


BLOCKS = ["/v1/agents/{agent_id:str}/core-memory/blocks", "/v1/agents/{agent_id:str}/blocks"]


@get(BLOCKS, opt=described("blocks", query=BlockPage))
async def list_agent_blocks(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """List the blocks of an agent."""
    reads = api_of(request).reads
    page = query_of(request, BlockPage)
    if not await reads.agent_exists(ORG, valid_id("agent", agent_id)):
        raise missing("agent", agent_id)
    attached = Filter()
    attached.add(
        "v.id = any((select a.block_ids from agent.agent_view a where a.id = %(agent)s)::text[])",
        "agent",
        agent_id,
    )
    return raw(await reads.page("memory.block_view", "v.document", attached, slice_of(page)))


@get([f"{path}/{{label:str}}" for path in BLOCKS], opt=described("block"))
async def retrieve_agent_block(request: AnyRequest, agent_id: str, label: str) -> Response[bytes]:
    """Retrieve a block of an agent by its label, or by its id."""
    return raw(await agent_block(request, agent_id, label))


@patch(
    [f"{path}/{{label:str}}" for path in BLOCKS],
    opt=described("block", body=requests.BlockUpdate),
)
async def update_agent_block(request: AnyRequest, agent_id: str, label: str) -> Response[bytes]:
    """Change a block of an agent by its label, or by its id."""
    body = await body_of(request, requests.BlockUpdate)
    changes = sized_block(body.model_dump(mode="json", exclude_unset=True))
    block_id = requests_id(await agent_block(request, agent_id, label))
    await api_of(request).send(request, UpdateBlock(block_id=block_id, changes=changes))
    return raw(await agent_block(request, agent_id, block_id))


@patch([f"{path}/attach/{{block_id:str}}" for path in BLOCKS], opt=described("agent"))
async def attach_block(request: AnyRequest, agent_id: str, block_id: str) -> Response[bytes]:
    """Attach a block to an agent."""
    api = api_of(request)
    valid_id("agent", agent_id)
    valid_id("block", block_id)
    await api.send(request, AttachBlock(agent_id=agent_id, block_id=block_id))
    return found(await api.reads.agent(ORG, agent_id, ALL_RELATIONSHIPS), "agent", agent_id)


@patch([f"{path}/detach/{{block_id:str}}" for path in BLOCKS], opt=described("agent"))
async def detach_block(request: AnyRequest, agent_id: str, block_id: str) -> Response[bytes]:
    """Detach a block from an agent."""
    api = api_of(request)
    valid_id("agent", agent_id)
    valid_id("block", block_id)
    await api.send(request, DetachBlock(agent_id=agent_id, block_id=block_id))
    return found(await api.reads.agent(ORG, agent_id, ALL_RELATIONSHIPS), "agent", agent_id)


async def agent_block(request: AnyRequest, agent_id: str, label_or_id: str) -> bytes:
    """The block of an agent that has this label or id; raises the 404 that names it."""
    reads = api_of(request).reads
    valid_id("agent", agent_id)
    kept = "\x00" not in label_or_id  # Postgres keeps no NUL, nor does it like to be asked for one
    block = await reads.agent_block(ORG, agent_id, label_or_id) if kept else None
    if block is None:
        if not await reads.agent_exists(ORG, agent_id):
            raise missing("agent", agent_id)
        raise Problem(404, errors.block_label_not_found(label_or_id, agent_id))
    return block


def requests_id(document: bytes) -> str:
    """The id in a block's document."""
    return str(from_json(document)["id"])


def relationships(request: AnyRequest, asked: Including) -> frozenset[str]:
    """What to show: what the client names, and to clients before SDK 1.0 everything."""
    if asked.include_relationships is not None:
        return frozenset(f"agent.{name}" for name in asked.include_relationships)
    if asked.include or not is_legacy(request):
        return frozenset(asked.include)
    return ALL_RELATIONSHIPS


def is_legacy(request: AnyRequest) -> bool:
    """Whether the client is an SDK before 1.0, or something else with a User-Agent of its own."""
    if "x-stainless-package-version" in request.headers:
        return False
    agent = request.headers.get("user-agent", "")
    if not agent:
        return False
    return not any(agent.startswith(f"{name}/1") for name in SDK_NAMES)


SDK_NAMES = ("letta-client", "@letta-ai/letta-client")


def agent_filter(asked: AgentFilters) -> Filter:
    """The conditions of a query for agents."""
    found = Filter(["a.org = %(org)s"], {"org": ORG})
    found.add("a.name = %(name)s", "name", asked.name)
    tagged = "a.tags @> %(tags)s" if asked.match_all_tags else "a.tags && %(tags)s"
    found.add(tagged, "tags", asked.tags)
    text = containing(asked.query_text)
    found.add("(a.name ilike %(text)s or a.doc->>'description' ilike %(text)s)", "text", text)
    for name in ("project_id", "template_id", "base_template_id", "created_by_id"):
        found.add(f"a.doc->>'{name}' = %({name})s", name, getattr(asked, name))
    found.add(
        "%(stop)s = (select r.stop_reason from agent.run_view r where r.agent_id = a.id"
        " order by r.created_at desc, r.id desc limit 1)",
        "stop",
        asked.last_stop_reason,
    )
    if asked.identity_id or asked.identifier_keys:
        found.conditions.append("false")
    return found
