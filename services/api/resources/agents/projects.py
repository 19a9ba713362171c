"""Projects: agents that belong together. An agent may be in several."""

from __future__ import annotations

from typing import Annotated, Literal

from litestar import Response
from pydantic import Field
from pydantic_core import from_json, to_json

from libs.contracts.agent.agents import UpdateAgent
from libs.contracts.api.projects import (
    AddAgents,
    CreateProject,
    DeleteProject,
    RemoveAgent,
    UpdateProject,
)
from libs.contracts.letta import all_request_bodies as bodies
from libs.contracts.letta.projects import ProjectState, slug_of
from libs.contracts.letta.request_size_limits import Name, Names, SearchText
from services.api.adapters.agents.project_queries import IN_PROJECT, OF_AGENT
from services.api.adapters.resource_query_builder import (
    Filter,
    Resource,
    Slice,
    Where,
    any_of,
    contains,
    filter_of,
)
from services.api.http.callers import org_of
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import AnyRequest, Page, Query, body_of, query_of, valid_id
from services.api.openapi.operation import delete, get, patch, post
from services.api.resources.agents.agents import AGENTS, Including, relationships
from services.api.v1.agent_documents import document_with
from services.api.v1.read_model_responses import (
    answer_page,
    document_of,
    must_exist,
)


def moment(column: str) -> str:
    """The SQL expression of a time as V1 writes it."""
    return f"""to_char({column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"""


PROJECTS = Resource(
    kind="project",
    view="api.project_view",
    document=(
        "json_build_object('id', v.id, 'name', v.name, 'description', v.description, 'tags',"
        " v.tags, 'owner_id', v.owner_id, 'organization_id', v.org, 'created_by_id',"
        " v.created_by_id, 'last_updated_by_id', v.last_updated_by_id, 'created_at',"
        f" {moment('v.created_at')}, 'updated_at', {moment('v.updated_at')})"
    ),
    created_view="api.created_project_view",
)
PROJECT = "/v1/projects/{project_id:str}"
AGENTS_IN_PROJECT = IN_PROJECT.format(*["%(project)s"] * 2)
OFFSET_MOST = 9_000


class ProjectFilters(Query):
    """Which projects."""

    name: Annotated[SearchText | None, contains("v.name")] = None
    owner_id: Annotated[Name | None, Where("v.owner_id = {}", key=True)] = None
    tags: Annotated[Names | None, any_of("v.tags && {}", unless="match_all_tags")] = None
    match_all_tags: Annotated[bool, any_of("v.tags @> {tags}")] = False


class ProjectPage(Page, ProjectFilters):
    """A page of projects; `offset` leaves out so many of the first ones."""

    limit: Annotated[int, Field(ge=1, le=1_000)] = 50
    offset: Annotated[int, Field(ge=0, le=OFFSET_MOST)] = 0
    order_by: Literal["created_at"] = "created_at"


class ProjectAgentPage(Page, Including):
    """A page of the agents of a project."""

    limit: Annotated[int | None, Field(ge=0, le=1_000)] = 50
    order_by: Literal["created_at"] = "created_at"


class Deletion(Query):
    """The treatment of the agents of a project that is deleted."""

    cascade: bool = False
    confirm_name: Name | None = None


@post("/v1/projects", "project", body=bodies.ProjectCreate, status_code=201)
async def create_project(request: AnyRequest) -> Response[bytes]:
    """Create a project; its name is its own in the organisation."""
    body = await body_of(request, bodies.ProjectCreate)
    project_id = api_of(request).new_id(request, "project")
    command = CreateProject(project=ProjectState(id=project_id, **body.model_dump()))
    await api_of(request).send(request, command, message_id=f"create-{project_id}")
    return await answer_project(request, project_id, status=201)


@get("/v1/projects", "projects", query=ProjectPage)
async def list_projects(request: AnyRequest) -> Response[bytes]:
    """List projects, the newest first, and say whether more follow."""
    page = query_of(request, ProjectPage)
    found = filter_of(page, org_of(request))
    return raw(await projects_and_more(request, page, found))


async def projects_and_more(request: AnyRequest, page: ProjectPage, found: Filter) -> bytes:
    """The projects of a page, with whether there is a page after it in its direction."""
    wanted = Slice(page.before, page.after, page.offset + page.limit + 1, page.order)
    projects = from_json(await api_of(request).reads.page(PROJECTS, found, wanted))
    backwards = page.before is not None and page.after is None
    if backwards:
        projects.reverse()
    shown = projects[page.offset : page.offset + page.limit]
    more = len(projects) > page.offset + page.limit
    ordered = [*reversed(shown)] if backwards else shown
    return to_json({"projects": [with_slug(project) for project in ordered], "hasNextPage": more})


def with_slug(project: dict[str, object]) -> dict[str, object]:
    """A project with its name as it stands in addresses."""
    return {**project, "slug": slug_of(str(project["name"]))}


async def answer_project(
    request: AnyRequest, project_id: str, *, status: int = 200
) -> Response[bytes]:
    """A project as JSON, or the 404 that says that it is not there."""
    project = from_json(await document_of(request, PROJECTS, project_id))
    return raw(to_json(with_slug(project)), status)


@get(PROJECT, "project")
async def retrieve_project(request: AnyRequest, project_id: str) -> Response[bytes]:
    """Retrieve a project by its id."""
    return await answer_project(request, project_id)


@patch(PROJECT, "project", body=bodies.ProjectUpdate)
async def update_project(request: AnyRequest, project_id: str) -> Response[bytes]:
    """Change the given fields of a project."""
    valid_id("project", project_id)
    body = await body_of(request, bodies.ProjectUpdate)
    changes = body.model_dump(mode="json", exclude_unset=True)
    await api_of(request).send(request, UpdateProject(project_id=project_id, changes=changes))
    return await answer_project(request, project_id)


@delete(PROJECT, "how many agents are deleted", query=Deletion)
async def delete_project(request: AnyRequest, project_id: str) -> Response[bytes]:
    """Delete a project. Its agents stay, unless `cascade` is true and `confirm_name` repeats the
    name of the project: then those that are in no other project are deleted soon after."""
    asked = query_of(request, Deletion)
    command = DeleteProject(
        project_id=valid_id("project", project_id),
        cascade=asked.cascade,
        confirm_name=asked.confirm_name,
    )
    reply = await api_of(request).send(request, command)
    return raw(to_json({"success": True, "deleted_agents": reply.result["agents"]}))


@get(f"{PROJECT}/agents", "agents", query=ProjectAgentPage)
async def list_agents_of_project(request: AnyRequest, project_id: str) -> Response[bytes]:
    """List the agents of a project: those that were added, and those that name it themselves."""
    await must_exist(request, PROJECTS, project_id)
    page = query_of(request, ProjectAgentPage)
    found = filter_of(page, org_of(request)).by_key(AGENTS_IN_PROJECT, project=project_id)
    shown = document_with(relationships(request, page))
    return await answer_page(request, AGENTS, page, found, document=shown)


@post(f"{PROJECT}/agents", "project", body=bodies.ProjectAgents)
async def add_agents_to_project(request: AnyRequest, project_id: str) -> Response[bytes]:
    """Add agents to a project, all or none; those that are in it stay."""
    valid_id("project", project_id)
    body = await body_of(request, bodies.ProjectAgents)
    command = AddAgents(project_id=project_id, agent_ids=body.agent_ids)
    await api_of(request).send(request, command)
    return await answer_project(request, project_id)


@delete(f"{PROJECT}/agents/{{agent_id:str}}", "project")
async def remove_agent_from_project(
    request: AnyRequest, project_id: str, agent_id: str
) -> Response[bytes]:
    """Take an agent out of a project; twice is once. The agent stays."""
    valid_id("project", project_id)
    valid_id("agent", agent_id)
    api = api_of(request)
    await api.send(request, RemoveAgent(project_id=project_id, agent_id=agent_id))
    own = await document_of(request, AGENTS, agent_id, document="v.fields->'project_id'")
    if from_json(own) == project_id:
        name = api.new_id(request, "cmd", request.url.path, "own")
        update = UpdateAgent(agent_id=agent_id, request={"project_id": None})
        await api.send(request, update, message_id=name)
    return await answer_project(request, project_id)


@get("/v1/agents/{agent_id:str}/projects", "projects", query=ProjectPage)
async def list_projects_of_agent(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """List the projects that an agent is in, the newest first."""
    await must_exist(request, AGENTS, agent_id)
    page = query_of(request, ProjectPage)
    found = filter_of(page, org_of(request)).by_key(OF_AGENT, agent=agent_id)
    return raw(await projects_and_more(request, page, found))
