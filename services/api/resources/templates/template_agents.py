"""Agents made from templates."""

from __future__ import annotations

from libs.contracts.api.deployments import MigrateDeployment
from libs.contracts.api.templates import MigrationOptions
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta import all_request_bodies as bodies
from services.api.http.request_parsing import AnyRequest, body_of, parse, valid_id
from services.api.openapi.operation import post
from services.api.v1.template_deployments import deploy, deployment_request, start, wait
from services.api.v1.template_names import (
    name_and_version,
    named_template,
    saved_version_number,
)


@post(
    "/v1/templates/{template_version:str}/agents",
    "agents of a template",
    body=bodies.CreateAgentsFromTemplate,
    status_code=201,
)
async def create_agents_from_template(request: AnyRequest, template_version: str) -> JsonObject:
    """Make the agents of a version of a template, all or none of them."""
    return await created_agents(request, template_version, None)


@post(
    "/v1/templates/{project_id:str}/{template_version:str}/agents",
    "agents of a template",
    body=bodies.CreateAgentsFromTemplate,
    status_code=201,
)
async def create_agents_from_template_in_project(
    request: AnyRequest, project_id: str, template_version: str
) -> JsonObject:
    """Make the agents of a version of a template of a project, all or none of them."""
    return await created_agents(request, template_version, project_id)


async def created_agents(
    request: AnyRequest, template_version: str, project_id: str | None
) -> JsonObject:
    """The answer to a request for agents of a template, once they are there."""
    body = parse(await request.body() or b"{}", bodies.CreateAgentsFromTemplate)
    name, version = name_and_version(template_version)
    template = await named_template(request, name, project_id)
    return await deploy(request, template, version, deployment_request(request, body))


@post(
    "/v1/templates/{project_id:str}/{template_name:str}/deployments/{deployment_id:str}/migrate",
    "success",
    body=bodies.MigrateDeployment,
)
async def migrate_deployment(
    request: AnyRequest, project_id: str, template_name: str, deployment_id: str
) -> JsonObject:
    """Have agents that were made from a template become what another version of it says."""
    body = await body_of(request, bodies.MigrateDeployment)
    number = saved_version_number(body.version)
    valid_id("deployment", deployment_id)
    template = await named_template(request, template_name, project_id)
    command = MigrateDeployment(
        deployment_id=deployment_id,
        template_id=template.id,
        version=number,
        options=MigrationOptions(
            preserve_tool_variables=body.preserve_tool_variables,
            preserve_core_memories=body.preserve_core_memories,
            preserve_sources=body.preserve_sources,
        ),
        memory_variables=body.memory_variables or {},
    )
    await start(request, command)
    outcome = await wait(request, deployment_id)
    if outcome["reason"]:
        return {"success": False, "message": str(outcome["reason"])}
    return {"success": True, "message": f"The agents are what version {body.version} says"}
