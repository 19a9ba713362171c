"""Messages to whoever can answer them: by a capability, and by the patterns on the same routing.
V1 has none of this."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from litestar import Response

from libs.contracts.groups.routing import Pattern, Recipients
from libs.contracts.letta.routing_requests import RoutedMessages, RouteRequest
from services.api.adapters.resource_query_builder import Where
from services.api.http.error_responses import answer
from services.api.http.raw_json import raw
from services.api.http.request_parsing import AnyRequest, Page, body_of, query_of, valid_name
from services.api.openapi.operation import get, post
from services.api.resources.groups.capabilities import NamedCapability
from services.api.v1.read_model_responses import answer_document, answer_page
from services.api.v1.routed_messages import (
    ROUTED_MESSAGES,
    command_of,
    letta_response,
    routed_to_of,
    send,
    send_and_hear,
    send_and_wait,
    with_answers,
)

TO_CAPABILITY = "/v1/capabilities/{capability:str}/messages"
MULTI_STATUS = 207


class RoutedPage(Page):
    """A page of routed messages."""

    pattern: Annotated[Pattern | None, Where("v.pattern = {}", key=True)] = None
    status: Annotated[
        Literal["active", "completed", "failed"] | None, Where("v.status = {}", key=True)
    ] = None


@post(TO_CAPABILITY, "the answer", body=RoutedMessages)
async def send_to_capability(request: AnyRequest, capability: str) -> Response[bytes]:
    """Send messages to the best available agent that declares a capability, and get its answer."""
    body = await body_of(request, RoutedMessages)
    command = command_of(request, body, of_capability(body, capability), scope=capability)
    return raw(json.dumps(await send_and_hear(request, command)).encode())


@post(f"{TO_CAPABILITY}/async", "routed message", body=RoutedMessages)
async def send_to_capability_async(request: AnyRequest, capability: str) -> Response[bytes]:
    """Send messages to the best available agent that declares a capability, without waiting."""
    body = await body_of(request, RoutedMessages)
    command = command_of(request, body, of_capability(body, capability), scope=capability)
    await send(request, command)
    return await answer_document(request, ROUTED_MESSAGES, command.routed_message_id)


@post("/v1/routing/messages", "routed message", body=RouteRequest)
async def route_message(request: AnyRequest) -> Response[bytes]:
    """Route messages by a pattern. Where some agents answered and others failed, the status is 207
    and each says why."""
    body = await body_of(request, RouteRequest)
    command = command_of(request, body, recipients_of(body))
    if body.background:
        await send(request, command)
        return await answer_document(request, ROUTED_MESSAGES, command.routed_message_id)
    document = await send_and_wait(request, command)
    shown = await with_answers(request, document)
    if document["answers"] and body.pattern in ("one", "pipeline", "contract_net"):
        shown = {**await letta_response(request, routed_to_of(document)), **shown}
    return answer(status_of(document), shown, {})


@get("/v1/routing/messages", "routed messages", query=RoutedPage)
async def list_routed_messages(request: AnyRequest) -> Response[bytes]:
    """List routed messages, the latest first."""
    return await answer_page(request, ROUTED_MESSAGES, query_of(request, RoutedPage))


@get("/v1/routing/messages/{routed_message_id:str}", "routed message")
async def retrieve_routed_message(request: AnyRequest, routed_message_id: str) -> Response[bytes]:
    """Retrieve a routed message with the log of its deliveries."""
    return await answer_document(request, ROUTED_MESSAGES, routed_message_id)


def status_of(document: dict[str, Any]) -> int:
    """The status of an answer: 207 where several were asked at once, and some of them failed."""
    some_failed = any(delivery["status"] == "failed" for delivery in document["deliveries"])
    to_all = document["pattern"] in ("scatter_gather", "publish")
    return MULTI_STATUS if to_all and some_failed else 200


def of_capability(body: RoutedMessages, capability: str) -> Recipients:
    """The agents with a capability, before them the one that the client names."""
    name = valid_name(NamedCapability, "capability", capability)
    return Recipients(capability=name, tags=body.tags or [], first=body.agent_id or "")


def recipients_of(body: RouteRequest) -> Recipients:
    """The agents that a body names, in whichever way."""
    return Recipients(
        capability=body.capability or "",
        capabilities=body.capabilities or [],
        agent_ids=body.agent_ids or [],
        tags=body.tags or [],
        topic=body.topic or "",
        first=body.agent_id or "",
    )
