"""What new templates are made of: agents that exist, and agent files."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json

from libs.contracts.api.templates import TemplateContent
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.template_requests import CreateTemplate
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.request_parsing import AnyRequest
from services.api.resources.agents import (
    AGENTS,
    ALL_RELATIONSHIPS,
    SEALED_SECRETS,
    document_with,
)
from services.api.v1.read_model_responses import document_of
from services.api.v1.template_snapshots import content_of_agent

SHOWN = document_with(ALL_RELATIONSHIPS - {"agent.secrets", "agent.managed_group"})


async def content_from(request: AnyRequest, body: CreateTemplate) -> TemplateContent:
    """What a template holds that is made of an agent or of an agent file. Raises Problem."""
    if body.type == "agent":
        assert body.agent_id is not None, "a body that was read names its source"
        return await content_from_agent(request, body.agent_id)
    assert body.agent_file is not None, "a body that was read names its source"
    return await content_from_file(request, body.agent_file)


async def content_from_agent(request: AnyRequest, agent_id: str) -> TemplateContent:
    """What a template of an agent holds. Raises the 404 that names the agent."""
    agent: dict[str, Any] = from_json(await document_of(request, AGENTS, agent_id, document=SHOWN))
    sealed = await api_of(request).reads.one(
        AGENTS, org_of(request), agent_id, document=SEALED_SECRETS
    )
    return content_of_agent(agent, from_json(sealed or b"{}"))


async def content_from_file(request: AnyRequest, agent_file: JsonObject) -> TemplateContent:
    """What a template of an agent file holds. Raises the 422 that says what is wrong with it."""
    raise Problem(501, {"detail": "`agent_file`: agent files are not read yet: use an agent"})
