"""Agents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Literal

from litestar import Response
from pydantic import Field

from libs.contracts.agent.agents import CreateAgent, UpdateAgent
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta import all_request_bodies as bodies
from libs.contracts.letta.request_size_limits import NAMES_MAX, Name, Names, SearchText
from services.api.adapters.agents.identity_documents import (
    HAS_IDENTIFIER_KEY,
    HAS_IDENTITY,
)
from services.api.adapters.agents.project_queries import IN_PROJECT
from services.api.adapters.resource_query_builder import (
    NOT_HIDDEN,
    Filter,
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
from services.api.v1.agent_documents import (
    ALL_RELATIONSHIPS,
    LATEST,
    RUNS_OF_AGENT,
    SECRET_FIELDS,
    Relationship,
    document_with,
)
from services.api.v1.as_of import AsOf, seen_at
from services.api.v1.attached_identities import (
    IDENTITY_FIELDS,
    check_identities,
    replace_identities,
)
from services.api.v1.client_versions import is_legacy
from services.api.v1.creation_defaults import complete_agent
from services.api.v1.folder_attachments import (
    FOLDER_FIELDS,
    attach,
    create_default_folder,
    replace,
    wanted_folders,
)
from services.api.v1.read_model_responses import (
    answer_count,
    answer_document,
    answer_page,
    document_of,
)
from services.api.v1.secret_sealing import sealed_values
from services.api.v1.sleeptime import (
    delete_with_sleeptime,
    enable_with_creation,
    enable_with_update,
)
from services.api.v1.state_size_checks import sized_agent, sized_creation

AGENTS = Resource(
    kind="agent",
    view="agent.agent_view",
    document=document_with(ALL_RELATIONSHIPS),
    sort_keys={
        "created_at": "v.created_at",
        "updated_at": "v.updated_at",
        "last_run_completion": (
            f"coalesce((select max((r.fields->>'completed_at')::timestamptz) {RUNS_OF_AGENT}),"
            " 'epoch'::timestamptz)"
        ),
    },
    created_view="agent.created_agent_view",
    created_sort_keys={"created_at": "v.created_at", "updated_at": "v.updated_at"},
    counted=("agent", "agents"),
)


class Including(Query):
    """Which relationships to show."""

    include: Annotated[list[Relationship], Field(default_factory=list, max_length=NAMES_MAX)]
    include_relationships: Names | None = None


class IncludingAsOf(Including, AsOf):
    """Which relationships to show, at which moment."""


WITH_CAPABILITY = (
    "select c.agent_id from agent.agent_capability_view c where c.org = %(org)s and c.name = {}"
)


class AgentFilters(Query):
    """Which agents."""

    name: Annotated[Name | None, Where("v.name = {}")] = None
    tags: Annotated[Names | None, any_of("v.tags && {}", unless="match_all_tags")] = None
    match_all_tags: Annotated[bool, any_of("v.tags @> {tags}")] = False
    query_text: Annotated[SearchText | None, contains("v.name", "v.fields->>'description'")] = None
    project_id: Annotated[Name | None, Where(IN_PROJECT, key=True)] = None
    template_id: Annotated[Name | None, Where("v.fields->>'template_id' = {}", key=True)] = None
    base_template_id: Annotated[
        Name | None, Where("v.fields->>'base_template_id' = {}", key=True)
    ] = None
    identity_id: Annotated[Name | None, Where(HAS_IDENTITY, key=True)] = None
    identifier_keys: Annotated[Names | None, Where(HAS_IDENTIFIER_KEY, key=True)] = None
    created_by_id: Annotated[Name | None, Where("v.fields->>'created_by_id' = {}", key=True)] = None
    capability: Annotated[Name | None, Where(f"v.id in ({WITH_CAPABILITY})", key=True)] = None
    last_stop_reason: Annotated[
        Name | None,
        Where(
            f"{{}} = (select r.stop_reason {RUNS_OF_AGENT} order by {LATEST} limit 1)",
            # An array: a plan that is kept knows of no reason that few runs ended for it.
            search="v.id = any(array(select r.agent_id from agent.run_view r"
            " where r.stop_reason = {} and r.org = %(org)s))",
        ),
    ] = None
    show_hidden_agents: bool | None = False


class AgentPage(Page, Including, AgentFilters):
    """A page of agents."""

    limit: Annotated[int | None, Field(ge=0, le=1_000)] = 50
    order_by: Literal["created_at", "updated_at", "last_run_completion"] = "created_at"


@post("/v1/agents", "agent", body=bodies.CreateAgent)
async def create_agent(request: AnyRequest) -> Response[bytes]:
    """Create an agent with its memory blocks."""
    body = await body_of(request, bodies.CreateAgent)
    agent_id = api_of(request).new_id(request, "agent")
    return raw(await created_agent(request, body, agent_id))


async def created_agent(
    request: AnyRequest,
    body: bodies.CreateAgent,
    agent_id: str,
    *,
    deployment_id: str = "",
    entity_id: str = "",
) -> bytes:
    """The document of an agent that is created as a body says, of a deployment of a template or of
    none. Raises Problem."""
    body = complete_agent(body, api_of(request).defaults)
    given = body.secrets or body.tool_exec_environment_variables
    wanted = sized_creation(plain_part(body) | sealed_part(request, given))
    command = CreateAgent(
        agent_id=agent_id, request=wanted, deployment_id=deployment_id, entity_id=entity_id
    )
    folders = await wanted_folders(request, body) or []
    await check_identities(request, body.identity_ids)
    await api_of(request).send(request, command, message_id=f"create-{agent_id}")
    if body.include_default_source:
        folders.append(await create_default_folder(request, agent_id))
    await attach(request, agent_id, *folders)
    await replace_identities(request, agent_id, body.identity_ids)
    if body.enable_sleeptime:
        await enable_with_creation(request, agent_id)
    return await document_of(request, AGENTS, agent_id)


def plain_part(body: bodies.CreateAgent | bodies.UpdateAgent) -> JsonObject:
    """The fields of a request, but for its secrets, and its folders and identities, which are other
    services'."""
    beside = {*SECRET_FIELDS, *FOLDER_FIELDS, *IDENTITY_FIELDS, "include_default_source"}
    return body.model_dump(mode="json", exclude_unset=True, exclude=beside)


def sealed_part(request: AnyRequest, secrets: Mapping[str, str] | None) -> JsonObject:
    """The secrets of a request, sealed before there is a command: the bus would store them."""
    if secrets is None:
        return {}
    return {"secrets": {**sealed_values(api_of(request).sealer, "secrets", secrets)}}


@get("/v1/agents", "agents", query=AgentPage)
async def list_agents(request: AnyRequest) -> Response[bytes]:
    """List agents, the newest first."""
    page = query_of(request, AgentPage)
    shown = document_with(relationships(request, page))
    found = shown_agents(request, page)
    return await answer_page(
        request,
        AGENTS,
        page,
        found,
        key=page.order_by,
        document=shown,
        bytes_max=LONG_PAGE_BYTES_MAX,
    )


@get("/v1/agents/count", "number of agents", query=AgentFilters)
async def count_agents(request: AnyRequest) -> Response[bytes]:
    """Count the agents that match the filters."""
    return await answer_count(
        request, AGENTS, shown_agents(request, query_of(request, AgentFilters))
    )


def shown_agents(request: AnyRequest, asked: AgentFilters) -> Filter:
    """The agents that a client asks for; hidden ones only where it says so. Written out, as in
    the index of the others."""
    found = filter_of(asked, org_of(request))
    return found if asked.show_hidden_agents else found.add(NOT_HIDDEN)


@get("/v1/agents/{agent_id:str}", "agent", query=IncludingAsOf)
async def retrieve_agent(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """Retrieve an agent by its id; with `at` as it was then."""
    asked = query_of(request, IncludingAsOf)
    shown = document_with(relationships(request, asked))
    async with seen_at(request, agent_id, asked.at):
        return await answer_document(request, AGENTS, agent_id, document=shown)


@patch("/v1/agents/{agent_id:str}", "agent", body=bodies.UpdateAgent)
async def update_agent(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """Change the given fields of an agent."""
    valid_id("agent", agent_id)
    body = await body_of(request, bodies.UpdateAgent)
    given = body.tool_exec_environment_variables if body.secrets is None else body.secrets
    changes = sized_agent(plain_part(body) | sealed_part(request, given))
    folders = await wanted_folders(request, body)
    await check_identities(request, body.identity_ids)
    api = api_of(request)
    name = api.new_id(request, "cmd", request.method, request.url.path)
    update = UpdateAgent(agent_id=agent_id, request=changes)
    await api.send(request, update, message_id=name)
    if folders is not None:
        await replace(request, agent_id, folders)
    await replace_identities(request, agent_id, body.identity_ids)
    if body.enable_sleeptime:
        await enable_with_update(request, agent_id, cause_id=name)
    return await answer_document(request, AGENTS, agent_id)


@delete("/v1/agents/{agent_id:str}", "message")
async def delete_agent(request: AnyRequest, agent_id: str) -> JsonObject:
    """Delete an agent with its messages, its runs, the blocks that only it has, and its sleeptime
    agent."""
    return await deleted_agent(request, agent_id)


async def deleted_agent(request: AnyRequest, agent_id: str, message_id: str = "") -> JsonObject:
    """The answer about a deleted agent. Raises Problem."""
    await delete_with_sleeptime(request, valid_id("agent", agent_id), message_id)
    return {"message": f"Agent id={agent_id} successfully deleted"}


def relationships(request: AnyRequest, asked: Including) -> Iterable[str]:
    """Relationships to show: those named, and to clients before SDK 1.0 everything."""
    if asked.include_relationships is not None:
        return [f"agent.{name}" for name in asked.include_relationships]
    if asked.include or not is_legacy(request):
        return asked.include
    return ALL_RELATIONSHIPS
