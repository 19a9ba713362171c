"""The versions of templates: saved, listed, read, rolled back to, and copied."""

from __future__ import annotations

from typing import Annotated

from litestar import Response
from pydantic import Field

from libs.contracts.api.templates import (
    ChangeTemplate,
    MigrationOptions,
    RollBackTemplate,
    SaveTemplateVersion,
    TemplateContent,
)
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta import all_request_bodies as bodies
from libs.contracts.letta.request_size_limits import INTEGER_MAX
from services.api.adapters.resource_query_builder import Filter
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import AnyRequest, Query, body_of, parse, query_of
from services.api.openapi.operation import get, post, put
from services.api.resources.templates.templates import IN_PROJECT, NAME, latest_of, make_template
from services.api.v1.template_lists import answer_list
from services.api.v1.template_names import (
    TEMPLATES,
    WORKING,
    NamedTemplate,
    name_and_version,
    named_template,
    saved_version_number,
    without_version,
)
from services.api.v1.template_snapshots import content_of_snapshot, snapshot_of

OF_VERSION = "/v1/templates/{project_id:str}/{template_version:str}"
SNAPSHOT = f"{OF_VERSION}/snapshot"
VERSION = (
    "json_build_object('version', v.version::text, 'created_at', to_char(v.saved_at at time zone"
    " 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'), 'message', v.message, 'is_latest',"
    " v.version = v.latest_version)"
)


class VersionPage(Query):
    """A page of versions, counted from the newest."""

    offset: Annotated[int, Field(ge=0, le=INTEGER_MAX)] = 0
    limit: Annotated[int, Field(ge=1, le=1_000)] = 50


@post(f"{NAME}/save", "template", body=bodies.SaveTemplate)
async def save_version(request: AnyRequest, template_name: str) -> Response[bytes]:
    """Save the working version of a template as its next version."""
    return await saved_version(request, template_name, None)


@post(IN_PROJECT, "template", body=bodies.SaveTemplate)
async def save_version_in_project(
    request: AnyRequest, project_id: str, template_name: str
) -> Response[bytes]:
    """Save the working version of a template of a project as its next version."""
    return await saved_version(request, template_name, project_id)


async def saved_version(
    request: AnyRequest, template_name: str, project_id: str | None
) -> Response[bytes]:
    """The answer to a request that saves a version. Agents that are to follow do so soon."""
    body = parse(await request.body() or b"{}", bodies.SaveTemplate)
    template = await named_template(request, without_version(template_name), project_id)
    options = MigrationOptions(
        preserve_tool_variables=body.preserve_environment_variables_on_migration,
        preserve_core_memories=body.preserve_core_memories_on_migration,
        preserve_sources=body.preserve_sources_on_migration,
        block_strategy=body.block_reconciliation_strategy,
    )
    command = SaveTemplateVersion(
        template_id=template.id,
        message=body.message,
        migration=options if body.migrate_agents else None,
    )
    await api_of(request).send(request, command)
    return raw(await latest_of(request, template.id))


@post(f"{NAME}/rollback", "success", body=bodies.RollBackTemplate)
async def roll_back_template(request: AnyRequest, template_name: str) -> JsonObject:
    """Make a saved version the working one; what is not saved becomes a version before."""
    return await rolled_back(request, template_name, None)


@post(f"{IN_PROJECT}/rollback", "success", body=bodies.RollBackTemplate)
async def roll_back_template_in_project(
    request: AnyRequest, project_id: str, template_name: str
) -> JsonObject:
    """Make a saved version of a template of a project the working one."""
    return await rolled_back(request, template_name, project_id)


async def rolled_back(
    request: AnyRequest, template_name: str, project_id: str | None
) -> JsonObject:
    """The answer to a request that rolls a template back."""
    body = await body_of(request, bodies.RollBackTemplate)
    number = saved_version_number(body.version)
    template = await named_template(request, template_name, project_id)
    command = RollBackTemplate(template_id=template.id, version=number)
    await api_of(request).send(request, command)
    return {"success": True, "message": f"{template.name} is rolled back to {body.version}"}


@get(
    "/v1/templates/{project_id:str}/{name:str}/versions",
    "page of template versions",
    query=VersionPage,
)
async def list_versions(request: AnyRequest, project_id: str, name: str) -> Response[bytes]:
    """List the saved versions of a template, the newest first."""
    page = query_of(request, VersionPage)
    template = await named_template(request, name, project_id)
    found = of_template(request, template).add("v.version > 0")
    part = (page.offset, page.limit)
    return raw(
        await answer_list(request, "versions", VERSION, found, "v.version desc", part, counted=True)
    )


def of_template(request: AnyRequest, template: NamedTemplate) -> Filter:
    """The rows of a template."""
    return Filter(
        ["v.org = %(org)s", "v.template_id = %(template)s"],
        {"org": org_of(request), "template": template.id},
    )


@get(SNAPSHOT, "snapshot of a template")
async def retrieve_snapshot(
    request: AnyRequest, project_id: str, template_version: str
) -> JsonObject:
    """Retrieve all that a version of a template holds; values of secrets are not shown."""
    name, version = name_and_version(template_version)
    template = await named_template(request, name, project_id)
    shown = WORKING[0] if version is None else str(version or template.latest_version)
    return snapshot_of(await content_of(request, template, version), shown)


async def content_of(
    request: AnyRequest, template: NamedTemplate, version: int | None
) -> TemplateContent:
    """The content of a template's version: 0 is the latest, None the working one. Raises the 404
    that says which versions there are."""
    number = 0 if version is None else version or template.latest_version
    found = of_template(request, template).add("v.version = %(number)s", number=number)
    document = await api_of(request).reads.first(TEMPLATES, found, document="v.content")
    if document is None:
        detail = (
            f"Template '{template.name}' has no version {number}: use 1 to"
            f" {template.latest_version}, latest or current"
        )
        raise Problem(404, {"detail": detail})
    return TemplateContent.model_validate_json(document)


@put(SNAPSHOT, "success", body=bodies.TemplateSnapshot)
async def replace_snapshot(
    request: AnyRequest, project_id: str, template_version: str
) -> JsonObject:
    """Give a template another working version, from a snapshot."""
    body = await body_of(request, bodies.TemplateSnapshot)
    name, version = name_and_version(template_version)
    if version is not None:
        detail = "`template_version`: a saved version never changes: write to `name:current`"
        raise Problem(400, {"detail": detail})
    template = await named_template(request, name, project_id)
    before = await content_of(request, template, None)
    content = content_of_snapshot(body, before, api_of(request).sealer.seal)
    command = ChangeTemplate(template_id=template.id, content=content)
    await api_of(request).send(request, command)
    return {"success": True, "message": f"The working version of {template.name} is replaced"}


@post(f"{OF_VERSION}/fork", "template", body=bodies.ForkTemplate)
async def fork_template(
    request: AnyRequest, project_id: str, template_version: str
) -> Response[bytes]:
    """Save a copy of a version as a new template."""
    body = parse(await request.body() or b"{}", bodies.ForkTemplate)
    name, version = name_and_version(template_version)
    template = await named_template(request, name, project_id)
    content = await content_of(request, template, version)
    template_id = await make_template(request, template.project_id, body.name, content)
    return raw(await latest_of(request, template_id))
