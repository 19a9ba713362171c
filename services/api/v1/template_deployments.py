"""Have agents made from templates, and wait until they are there."""

from __future__ import annotations

from typing import Any

from libs.contracts.api.deployments import DeploymentCommand, DeploymentRequest, DeployTemplate
from libs.contracts.bus_messages import JsonObject, Rejected
from libs.contracts.letta.template_requests import CreateAgentsFromTemplate
from services.api.adapters.templates.template_queries import TemplateQueries
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem, refusal_problem
from services.api.http.handler_dependencies import api_of
from services.api.http.request_parsing import AnyRequest
from services.api.v1.secret_sealing import sealed_values
from services.api.v1.template_names import NamedTemplate

DEPLOYMENT_SECONDS_MAX = 60.0
LOOK_SECONDS, LOOK_SECONDS_MAX = 0.02, 0.5
UNFINISHED = ("started", "undoing", "migrating")


def deployment_request(request: AnyRequest, body: CreateAgentsFromTemplate) -> DeploymentRequest:
    """The client's request for agents; its secrets are sealed. Raises Problem."""
    messages = body.initial_message_sequence
    return DeploymentRequest(
        agent_name=body.agent_name,
        tags=body.tags,
        identity_ids=body.identity_ids,
        memory_variables=body.memory_variables or {},
        tool_variables=sealed_values(
            api_of(request).sealer, "tool_variables", body.tool_variables or {}
        ),
        first_messages=None
        if messages is None
        else [message.model_dump(mode="json") for message in messages],
    )


async def deploy(
    request: AnyRequest, template: NamedTemplate, version: int | None, wanted: DeploymentRequest
) -> JsonObject:
    """The agents made from a version of a template, once all of it is there. Raises Problem where
    it was refused, and then nothing is left of it."""
    api = api_of(request)
    deployment_id = api.new_id(request, "deployment")
    command = DeployTemplate(
        deployment_id=deployment_id, template_id=template.id, version=version, request=wanted
    )
    await start(request, command)
    outcome = await wait(request, deployment_id)
    if outcome["status"] == "undone":
        reason = str(outcome["reason"])
        raise refusal_problem(Rejected(code=str(outcome["code"]), reason=reason))
    return {
        "agent_ids": outcome["agent_ids"],
        "group_id": outcome["group_id"],
        "deployment_id": deployment_id,
    }


async def start(request: AnyRequest, command: DeploymentCommand) -> None:
    """Send what begins some work on a deployment. Raises Problem where it is refused."""
    name = api_of(request).new_id(request, "cmd", request.url.path, command.topic)
    await api_of(request).send(request, command, message_id=name)


async def wait(request: AnyRequest, deployment_id: str) -> dict[str, Any]:
    """The end of a deployment. Raises the 503 where that takes too long: it goes on."""
    api, org = api_of(request), org_of(request)
    queries = TemplateQueries(api.reads.database)
    begun, pause = api.clock.monotonic(), LOOK_SECONDS
    while api.clock.monotonic() - begun < DEPLOYMENT_SECONDS_MAX:
        outcome = await queries.outcome(org, deployment_id)
        if outcome is None:  # its agents were made under this key before, and are deleted since
            raise Problem(404, {"detail": f"Deployment with ID {deployment_id} not found"})
        if outcome["status"] not in UNFINISHED:
            return outcome
        await api.clock.sleep(pause)
        pause = min(2 * pause, LOOK_SECONDS_MAX)
    detail = (
        f"Deployment {deployment_id} takes longer, and goes on: look at"
        f" GET /v1/_internal_templates/deployment/{deployment_id}"
    )
    raise Problem(503, {"detail": detail}, {"x-should-retry": "false"})
