"""Many agents created or deleted by one request: each item is answered as a single call would be,
and what fails for one changes nothing for the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from litestar import Response
from pydantic_core import from_json, to_json

from libs.bus.ports import BusUnavailable
from libs.contracts.bus_messages import Json
from libs.contracts.letta import all_request_bodies as bodies
from libs.contracts.letta.batch_requests import CreateAgentsRequest, DeleteAgentsRequest
from libs.contracts.letta.error_bodies import InvalidArgument
from libs.eventstore.ports import StoreUnavailable
from services.api.http.error_responses import Problem, as_problem
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import AnyRequest, model_of
from services.api.openapi.operation import delete, post
from services.api.resources.agents.agents import created_agent, deleted_agent
from services.api.v1.batch_request import batch_body_of

MULTI_STATUS = 207
AT_ONCE_MAX = 5

# What a single call answers with a status that says so; anything else is a bug.
ANSWERED = (Problem, InvalidArgument, BusUnavailable, StoreUnavailable)

type Answer = tuple[int, Json]


@post(
    "/v1/agents/batch", "a status for each item", body=CreateAgentsRequest, status_code=MULTI_STATUS
)
async def create_agents(request: AnyRequest) -> Response[bytes]:
    """Create many agents; each has a status and a body of its own, in the order of the request."""
    body = await batch_body_of(request, CreateAgentsRequest)
    api = api_of(request)

    async def create(number: int, wanted: Json) -> Json:
        described = model_of(wanted, bodies.CreateAgent)
        agent_id = api.new_id(request, "agent", "batch", str(number))
        created: Json = from_json(await created_agent(request, described, agent_id))
        return created

    return await answer_each(request, body.agents, create)


@delete(
    "/v1/agents/batch", "a status for each item", body=DeleteAgentsRequest, status_code=MULTI_STATUS
)
async def delete_agents(request: AnyRequest) -> Response[bytes]:
    """Delete many agents; each has a status and a body of its own, in the order of the request."""
    body = await batch_body_of(request, DeleteAgentsRequest)
    api = api_of(request)

    async def remove(number: int, agent_id: str) -> Json:
        message_id = api.new_id(request, "cmd", "delete", str(number))
        return await deleted_agent(request, agent_id, message_id)

    return await answer_each(request, body.agent_ids, remove)


async def answer_each[T](
    request: AnyRequest, items: Sequence[T], answer: Callable[[int, T], Awaitable[Json]]
) -> Response[bytes]:
    """The 207 with what each item is answered, a few of them at the same time."""
    places = asyncio.Semaphore(AT_ONCE_MAX)

    async def one(number: int, item: T) -> Answer:
        async with places:
            try:
                return 200, await answer(number, item)
            except ANSWERED as refused:
                problem = as_problem(request, refused)
                return problem.status, problem.body

    answers = await asyncio.gather(*(one(number, item) for number, item in enumerate(items)))
    results = [
        {"index": index, "status": status, "body": body}
        for index, (status, body) in enumerate(answers)
    ]
    return raw(to_json({"results": results}), MULTI_STATUS)
