"""A single question to a model: nothing of an agent's memory goes in, and nothing is kept."""

from __future__ import annotations

from typing import Any

from litestar import Response
from pydantic_core import to_json

from libs.contracts.agent.one_off_completions import (
    AskModel,
    GenerateCompletion,
    completion_deltas,
)
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta import all_request_bodies as bodies
from libs.work.progress import follow
from services.api.http.callers import org_of
from services.api.http.error_responses import RETRY_AFTER_SECONDS, Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.per_path_concurrency_limits import TOO_MANY, UNAVAILABLE, end_turn
from services.api.http.raw_json import raw
from services.api.http.request_admission import unless_hung_up
from services.api.http.request_parsing import AnyRequest, body_of, valid_id
from services.api.openapi.operation import post

# Whatever a model's provider had against the question, as V1 says it here.
PROVIDER_FAILED = 502


@post("/v1/agents/{agent_id:str}/generate", "the answer", body=bodies.GenerateRequest)
async def generate_completion(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """Ask an agent's model, or another one, a single question: without the agent's memory and
    tools, and without a trace in its history."""
    asked = await body_of(request, bodies.GenerateRequest)
    api = api_of(request)
    command = GenerateCompletion(
        completion_id=api.ids.new("completion"),
        agent_id=valid_id("agent", agent_id),
        prompt=asked.prompt,
        system_prompt=asked.system_prompt,
        model=asked.override_model,
        response_schema=asked.response_schema,
    )
    answer = await completion(request, command)
    return raw(to_json({name: answer[name] for name in ("content", "model", "usage")}))


async def completion(request: AnyRequest, command: GenerateCompletion | AskModel) -> JsonObject:
    """The model's answer; raises the response that its failure is."""
    api = api_of(request)
    async with follow(
        api.bus, completion_deltas(org_of(request), command.completion_id)
    ) as progress:
        await api.send(request, command, message_id=command.completion_id, keyed=False)
        end_turn(request.scope["state"])  # a model may take long
        end = await unless_hung_up(request, progress.end_or_silence())
    if end is None:
        detail = "The answer got lost on its way: try again"
        raise Problem(UNAVAILABLE, {"detail": detail}, {"Retry-After": RETRY_AFTER_SECONDS})
    if "problem" in end:
        raise completion_problem(end["problem"])
    return dict(end["completion"])


def completion_problem(problem: dict[str, Any]) -> Problem:
    """Why there is no answer. What the provider is asked again was asked often enough already."""
    if problem.get("busy") or problem.get("lost"):
        status = TOO_MANY if problem.get("busy") else UNAVAILABLE
        headers = {"Retry-After": RETRY_AFTER_SECONDS}
        return Problem(status, {"detail": problem["message"]}, headers)
    detail = f"LLM provider error: {problem['message']}"
    if problem.get("detail"):
        detail = f"{detail} ({problem['detail']})"
    return Problem(PROVIDER_FAILED, {"detail": detail}, {"x-should-retry": "false"})
