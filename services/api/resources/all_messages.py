"""The messages of all agents: listed, retrieved and searched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from litestar import Response, get, post
from litestar.exceptions import NotFoundException
from pydantic import Field
from pydantic_core import to_json

from libs.contracts.bus_messages import JsonObject
from libs.contracts.conversation import main_conversation
from libs.contracts.letta import all_request_bodies
from libs.contracts.letta.agent_state import timestamp
from libs.contracts.letta.message_requests import MessageTypes
from libs.contracts.letta.request_size_limits import Name
from libs.contracts.letta.search_requests import MessageSearch
from services.api.adapters.message_search import FoundMessage, Searched
from services.api.http.error_responses import Problem, no_route
from services.api.http.handler_helpers import ORG, api_of, missing, raw, slice_of
from services.api.http.openapi_operation import returns
from services.api.http.request_parsing import (
    PAGE_ITEMS_MAX,
    AnyRequest,
    Page,
    body_of,
    query_of,
    valid_id,
)

# What people and agents say to each other; the results of tools are looked up by the tools.
SPOKEN = ("user", "assistant", "system")
# What is shown of a message that was found, by its V1 type.
FOUND = {
    "system_message": "content",
    "user_message": "content",
    "assistant_message": "content",
    "reasoning_message": "reasoning",
}
NO_VECTORS = (
    "`search_mode` vector needs embeddings of messages, which are not built yet: use fts, or "
    "hybrid, which looks for the words alone until then"
)
# A rank in one list counts 1 / (60 + rank), as V1 puts its two lists together.
RANK_OFFSET = 60


class AllMessagesPage(Page):
    """A page of messages."""

    limit: Annotated[int | None, Field(ge=0, le=PAGE_ITEMS_MAX)] = 100
    order: Literal["asc", "desc"] = "desc"
    conversation_id: Name | None = None
    include_return_message_types: MessageTypes | None = None


@get("/v1/messages", opt=returns("messages", query=AllMessagesPage))
async def list_all_messages(request: AnyRequest) -> Response[bytes]:
    """List the messages of all agents, the newest first."""
    page = query_of(request, AllMessagesPage)
    messages = api_of(request).messages
    types = page.include_return_message_types
    return raw(await messages.all_messages(ORG, page.conversation_id, types, slice_of(page)))


@get("/v1/messages/{message_id:str}", opt=returns("the messages that one is served as"))
async def retrieve_message(request: AnyRequest, message_id: str) -> Response[bytes]:
    """Retrieve a message; one that thinks, speaks and calls tools is several."""
    if message_id == "batches":
        raise no_route(request, NotFoundException())
    found = await api_of(request).messages.message(ORG, valid_id("message", message_id))
    if found is None:
        raise missing("message", message_id)
    return raw(found)


@post(
    "/v1/messages/search",
    status_code=200,
    opt=returns("what was found", body=all_request_bodies.SearchAllMessagesRequest),
)
async def search_all_messages(request: AnyRequest) -> Response[bytes]:
    """Find messages with all of these words, the newest first."""
    body = await body_of(request, all_request_bodies.SearchAllMessagesRequest)
    found = await searched(request, body, body.query)
    return raw(to_json([shown for one in found for shown in results_of(one)][: body.limit]))


@post(
    "/v1/agents/messages/search",
    status_code=200,
    opt=returns("what was found", body=all_request_bodies.MessageSearchRequest),
)
async def search_messages(request: AnyRequest) -> Response[bytes]:
    """Find messages with all of these words, the newest first, with their ranks."""
    body = await body_of(request, all_request_bodies.MessageSearchRequest)
    found = await searched(
        request,
        body,
        body.query,
        roles=SPOKEN if body.roles is None else [role.value for role in body.roles],
        project_id=body.project_id,
        template_id=body.template_id,
    )
    return raw(to_json([ranked(one, rank) for rank, one in enumerate(found, start=1)]))


async def searched(
    request: AnyRequest, body: MessageSearch, query: str | None, **others: Any
) -> list[FoundMessage]:
    """The messages that a request asks for; blank words find nothing."""
    if body.search_mode == "vector":
        raise Problem(501, {"detail": NO_VECTORS}, {"x-should-retry": "false"})
    if query is not None and not query.strip():
        return []
    asked = Searched(
        ORG,
        query,
        others.pop("roles", SPOKEN),
        body.limit,
        agent_id=body.agent_id,
        conversation_id=body.conversation_id,
        since=body.start_date,
        until=body.end_date,
        **others,
    )
    return await api_of(request).search.search(asked)


def results_of(found: FoundMessage) -> Iterator[JsonObject]:
    """What a message that was found says, each part by itself."""
    for doc in found.docs:
        field = FOUND.get(doc["message_type"])
        if field is not None:
            yield {
                "message_type": doc["message_type"],
                field: doc[field],
                "message_id": found.id,
                "agent_id": found.agent_id,
                "conversation_id": conversation_of(found),
                "created_at": timestamp(found.created_at),
            }


def ranked(found: FoundMessage, rank: int) -> JsonObject:
    """A message that was found, as it is stored, and its place."""
    return {
        "embedded_text": found.text,
        "message": {
            "id": found.id,
            "agent_id": found.agent_id,
            "conversation_id": conversation_of(found),
            "role": found.role,
            "content": [{"type": "text", "text": found.text}],
            "run_id": found.run_id,
            "step_id": found.step_id,
            "created_at": timestamp(found.created_at),
        },
        "fts_rank": rank,
        "vector_rank": None,
        "rrf_score": 1 / (RANK_OFFSET + rank),
    }


def conversation_of(found: FoundMessage) -> str | None:
    """The conversation of a message, None for its agent's own."""
    own = found.conversation_id == main_conversation(found.agent_id)
    return None if own else found.conversation_id
