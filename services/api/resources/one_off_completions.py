"""A single question to a model: nothing of an agent's memory goes in, and nothing is kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from litestar import Response, post
from pydantic_core import from_json, to_json

from libs.contracts.agent.one_off_completions import (
    SILENCE_SECONDS_MAX,
    AskModel,
    GenerateCompletion,
    completion_deltas,
)
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta import all_request_bodies
from services.api.http.callers import org_of
from services.api.http.error_responses import RETRY_AFTER_SECONDS, Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.per_path_concurrency_limits import HUNG_UP, TOO_MANY, UNAVAILABLE, end_turn
from services.api.http.read_model_responses import raw
from services.api.http.request_admission import hung_up
from services.api.http.request_parsing import AnyRequest, body_of, valid_id
from services.api.openapi.operation import returns

# Whatever a model's provider had against the question, as V1 says it here.
PROVIDER_FAILED = 502


@post(
    "/v1/agents/{agent_id:str}/generate",
    status_code=200,
    opt=returns("the answer", body=all_request_bodies.GenerateRequest),
)
async def generate_completion(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """Ask an agent's model, or another one, a single question: without the agent's memory and
    tools, and without a trace in its history."""
    asked = await body_of(request, all_request_bodies.GenerateRequest)
    api = api_of(request)
    command = GenerateCompletion(
        completion_id=api.ids.new("completion"),
        agent_id=valid_id("agent", agent_id),
        prompt=asked.prompt,
        system_prompt=asked.system_prompt,
        model=asked.override_model,
        response_schema=asked.response_schema,
    )
    told = await completion(request, command)
    return raw(to_json({name: told[name] for name in ("content", "model", "usage")}))


async def completion(request: AnyRequest, command: GenerateCompletion | AskModel) -> JsonObject:
    """What the model said; raises the answer that its failure is."""
    api = api_of(request)
    heard: asyncio.Queue[bytes] = asyncio.Queue()
    subscription = await api.bus.subscribe_deltas(
        completion_deltas(org_of(request), command.completion_id),
        lambda _, payload: heard.put_nowait(payload),
    )
    try:
        await api.send(request, command, message_id=command.completion_id, keyed=False)
        end_turn(request.scope["state"])  # a model may take long
        return await answer(request, heard)
    finally:
        await subscription.end()


async def answer(request: AnyRequest, heard: asyncio.Queue[bytes]) -> JsonObject:
    """What the model said; raises the answer that its failure is."""
    async for told in until_silence(request, heard):
        if "completion" in told:
            return dict(told["completion"])
        if "problem" in told:
            raise failed(told["problem"])
    detail = "The answer got lost on its way: try again"
    raise Problem(UNAVAILABLE, {"detail": detail}, {"Retry-After": RETRY_AFTER_SECONDS})


async def until_silence(
    request: AnyRequest, heard: asyncio.Queue[bytes], *, seconds: float = SILENCE_SECONDS_MAX
) -> AsyncGenerator[dict[str, Any]]:
    """What is told, until nothing is any more. Raises the 499 for a client that has gone."""
    leaving = asyncio.ensure_future(hung_up(request))
    hearing = asyncio.ensure_future(heard.get())
    try:
        while True:
            await asyncio.wait(
                [hearing, leaving],
                timeout=seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if hearing.done():
                yield from_json(hearing.result())
                hearing = asyncio.ensure_future(heard.get())
                continue
            if leaving.done():
                raise Problem(HUNG_UP, {"detail": "The client hung up"})
            return
    finally:
        leaving.cancel()
        hearing.cancel()


def failed(problem: dict[str, Any]) -> Problem:
    """Why there is no answer. What the provider is asked again was asked often enough already."""
    if problem.get("busy") or problem.get("lost"):
        status = TOO_MANY if problem.get("busy") else UNAVAILABLE
        headers = {"Retry-After": RETRY_AFTER_SECONDS}
        return Problem(status, {"detail": problem["message"]}, headers)
    detail = f"LLM provider error: {problem['message']}"
    if problem.get("detail"):
        detail = f"{detail} ({problem['detail']})"
    return Problem(PROVIDER_FAILED, {"detail": detail}, {"x-should-retry": "false"})
