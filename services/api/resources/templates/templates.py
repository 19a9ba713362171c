"""Templates: agents as saved values, listed, made, renamed and deleted."""

from __future__ import annotations

from typing import Annotated, Literal

from litestar import Response
from pydantic import Field

from libs.contracts.api.templates import (
    ChangeTemplate,
    CreateTemplate,
    DeleteTemplate,
    RenameTemplate,
    TemplateContent,
)
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta import all_request_bodies as bodies
from libs.contracts.letta.request_size_limits import INTEGER_MAX, Name, SearchText
from libs.eventstore.text_search import has_text
from services.api.adapters.resource_query_builder import Filter, Where, contains, filter_of
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import AnyRequest, Query, body_of, query_of
from services.api.openapi.operation import delete, get, patch, post, put
from services.api.resources.templates.template_sources import content_from
from services.api.v1.template_lists import answer_list
from services.api.v1.template_names import (
    LATEST,
    TEMPLATES,
    named_template,
    project_for_new,
    project_of,
    version_number,
    without_version,
)

NAME = "/v1/templates/{template_name:str}"
IN_PROJECT = "/v1/templates/{project_id:str}/{template_name:str}"
WORDS_OF_NAME = 8  # characters of an id


class TemplatePage(Query):
    """A page of templates, counted from the first."""

    offset: Annotated[int, Field(ge=0, le=INTEGER_MAX)] = 0
    limit: Annotated[int, Field(ge=1, le=1_000)] = 25
    name: Name | None = None
    exact: bool = False
    search: Annotated[SearchText | None, contains("v.name")] = None
    version: Name | None = None
    template_id: Annotated[Name | None, Where("{} in (v.id, v.template_id)")] = None
    project_id: Name | None = None
    project_slug: Name | None = None
    sort_by: Literal["created_at", "updated_at"] = "created_at"


@get("/v1/templates", "page of templates", query=TemplatePage)
async def list_templates(request: AnyRequest) -> Response[bytes]:
    """List the latest version of each template, the newest first."""
    page = query_of(request, TemplatePage)
    if page.project_id and page.project_slug:
        detail = "`project_id` and `project_slug`: give one of them"
        raise Problem(400, {"detail": detail})
    found = filter_of(page, org_of(request))
    which_version(page, found)
    if project := page.project_id or page.project_slug:
        found.add("v.project_id = %(project)s", project=await project_of(request, project))
    if page.name and page.exact:
        found.add("v.name = %(name)s", name=page.name)
    elif page.name:
        found.add(has_text("v.name", "%(name)s"), name=page.name)
    order = f"{TEMPLATES.sort_keys[page.sort_by]} desc, v.id desc"
    part = (page.offset, page.limit)
    return raw(await answer_list(request, "templates", TEMPLATES.document, found, order, part))


def which_version(page: TemplatePage, found: Filter) -> None:
    """Have a list show one version of each template: that whose id is named, else the latest one
    or that of a number. Raises the 422 for what is no version."""
    if page.template_id and not page.version:
        latest = "(v.template_id <> %(named)s or v.version = v.latest_version)"
        found.add(latest, named=page.template_id)
        return
    number = version_number(page.version or LATEST, "version")
    if number == 0:
        found.add("v.version = v.latest_version")
    else:
        found.add("v.version = %(number)s", number=number or 0)


@post("/v1/templates", "template", body=bodies.CreateTemplate, status_code=201)
async def create_template(request: AnyRequest) -> Response[bytes]:
    """Save a new template of an agent, or of an agent file, as its version 1."""
    return await created_template(request, None)


@post("/v1/templates/{project_id:str}", "template", body=bodies.CreateTemplate, status_code=201)
async def create_template_in_project(request: AnyRequest, project_id: str) -> Response[bytes]:
    """Save a new template in a project."""
    return await created_template(request, project_id)


async def created_template(request: AnyRequest, project_id: str | None) -> Response[bytes]:
    """The answer to a request for a new template."""
    body = await body_of(request, bodies.CreateTemplate)
    project = await project_for_new(request, project_id)
    async with content_from(request, body) as content:
        template_id = await make_template(request, project, body.name, content)
    return raw(await latest_of(request, template_id), 201)


async def make_template(
    request: AnyRequest, project: str, name: str | None, content: TemplateContent
) -> str:
    """Save a new template; returns its id. Without a name it gets one that follows from that."""
    api = api_of(request)
    template_id = api.new_id(request, "template")
    command = CreateTemplate(
        template_id=template_id,
        project_id=project,
        name=name or f"template-{template_id[-WORDS_OF_NAME:]}",
        content=content,
    )
    await api.send(request, command, message_id=f"create-{template_id}")
    return template_id


async def latest_of(request: AnyRequest, template_id: str) -> bytes:
    """The document of the latest version of a template. Raises the 404."""
    found = Filter(
        ["v.org = %(org)s", "v.template_id = %(id)s", "v.version = v.latest_version"],
        {"org": org_of(request), "id": template_id},
    )
    document = await api_of(request).reads.first(TEMPLATES, found)
    if document is None:
        raise Problem(404, {"detail": f"Template with ID {template_id} not found"})
    return document


@patch(NAME, "success", body=bodies.UpdateTemplate)
async def update_template(request: AnyRequest, template_name: str) -> JsonObject:
    """Give a template another working version, from an agent file."""
    return await updated_template(request, template_name, None)


@put(f"{IN_PROJECT}/agent-file", "success", body=bodies.UpdateTemplate)
async def update_template_in_project(
    request: AnyRequest, project_id: str, template_name: str
) -> JsonObject:
    """Give a template of a project another working version, from an agent file."""
    return await updated_template(request, template_name, project_id)


async def updated_template(
    request: AnyRequest, template_name: str, project_id: str | None
) -> JsonObject:
    """The answer to a request that changes a working version."""
    body = await body_of(request, bodies.UpdateTemplate)
    template = await named_template(request, template_name, project_id)
    source = bodies.CreateTemplate(
        type="agent_file",
        agent_file=body.agent_file_json,
        update_existing_tools=body.update_existing_tools,
    )
    async with content_from(request, source) as content:
        command = ChangeTemplate(
            template_id=template.id, content=content, save_first=body.save_existing_changes
        )
        await api_of(request).send(request, command)
    return {"success": True, "message": f"The working version of {template.name} is replaced"}


@delete(NAME, "success")
async def delete_template(request: AnyRequest, template_name: str) -> JsonObject:
    """Delete a template with all its versions; the agents made from it stay."""
    return await deleted_template(request, template_name, None)


@delete(IN_PROJECT, "success")
async def delete_template_in_project(
    request: AnyRequest, project_id: str, template_name: str
) -> JsonObject:
    """Delete a template of a project with all its versions."""
    return await deleted_template(request, template_name, project_id)


async def deleted_template(
    request: AnyRequest, template_name: str, project_id: str | None
) -> JsonObject:
    """The answer to a request that deletes a template."""
    template = await named_template(request, template_name, project_id)
    await api_of(request).send(request, DeleteTemplate(template_id=template.id))
    return {"success": True}


@patch(f"{IN_PROJECT}/name", "success", body=bodies.RenameTemplate)
async def rename_template(request: AnyRequest, project_id: str, template_name: str) -> JsonObject:
    """Give a template another name."""
    body = await body_of(request, bodies.RenameTemplate)
    template = await named_template(request, without_version(template_name), project_id)
    command = RenameTemplate(template_id=template.id, name=body.new_name)
    await api_of(request).send(request, command)
    return {"success": True}


@patch(f"{IN_PROJECT}/description", "success", body=bodies.DescribeTemplate)
async def describe_template(request: AnyRequest, project_id: str, template_name: str) -> JsonObject:
    """Give a template another description."""
    body = await body_of(request, bodies.DescribeTemplate)
    template = await named_template(request, without_version(template_name), project_id)
    command = RenameTemplate(template_id=template.id, description=body.description)
    await api_of(request).send(request, command)
    return {"success": True}
