"""The messages of all agents: listed, retrieved and searched."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from litestar import Response
from litestar.exceptions import NotFoundException
from pydantic import Field
from pydantic_core import to_json

from libs.bus.ports import BusUnavailable
from libs.contracts.agent.conversations import main_conversation
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta import all_request_bodies as bodies
from libs.contracts.letta.agent_state import timestamp
from libs.contracts.letta.message_requests import MessageSearch, MessageTypes
from libs.contracts.letta.request_size_limits import Name
from libs.contracts.memory.semantic_message_search import (
    CANDIDATES_MIN,
    MESSAGES_FOUND_MAX,
    NearestMessages,
)
from libs.embeddings.rank_fusion import fuse_ranks
from services.api.adapters.conversations.message_search_queries import FoundMessage, Searched
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem, no_route
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import (
    PAGE_ITEMS_MAX,
    AnyRequest,
    Page,
    body_of,
    query_of,
    valid_id,
)
from services.api.openapi.operation import get, post
from services.api.v1.read_model_responses import missing, slice_of

log = logging.getLogger(__name__)

# What people and agents say to each other; the results of tools are looked up by the tools.
SPOKEN = ("user", "assistant")
# Each system prompt has all of its agent's memory in it; V1 does not search them either.
NOT_SEARCHED = "system"
# What is shown of a message that was found, by its V1 type.
FOUND = {
    "user_message": "content",
    "assistant_message": "content",
    "reasoning_message": "reasoning",
}
# Who waits for the meaning alone waits longer than who is answered by the words without it.
HYBRID_SECONDS_MAX = 5.0
VECTOR_SECONDS_MAX = 30.0


class AllMessagesPage(Page):
    """A page of messages."""

    limit: Annotated[int | None, Field(ge=0, le=PAGE_ITEMS_MAX)] = 100
    order: Literal["asc", "desc"] = "desc"
    conversation_id: Name | None = None
    include_return_message_types: MessageTypes | None = None


@get("/v1/messages", "messages", query=AllMessagesPage)
async def list_all_messages(request: AnyRequest) -> Response[bytes]:
    """List the messages of all agents, the newest first."""
    page = query_of(request, AllMessagesPage)
    messages, org = api_of(request).messages, org_of(request)
    types = page.include_return_message_types
    return raw(await messages.all_messages(org, page.conversation_id, types, slice_of(page)))


@get("/v1/messages/{message_id:str}", "the messages that one is served as")
async def retrieve_message(request: AnyRequest, message_id: str) -> Response[bytes]:
    """Retrieve a message; one that thinks, speaks and calls tools is several."""
    if message_id == "batches":
        raise no_route(request, NotFoundException())
    found = await api_of(request).messages.message(org_of(request), valid_id("message", message_id))
    if found is None:
        raise missing("message", message_id)
    return raw(found)


@post("/v1/messages/search", "what was found", body=bodies.SearchAllMessagesRequest)
async def search_all_messages(request: AnyRequest) -> Response[bytes]:
    """Find messages by meaning and words, the best first; by words alone the newest first."""
    body = await body_of(request, bodies.SearchAllMessagesRequest)
    found = await search(request, body, body.query)
    return raw(
        to_json([shown for match in found for shown in results_of(match.message)][: body.limit])
    )


@post("/v1/agents/messages/search", "what was found", body=bodies.MessageSearchRequest)
async def search_messages(request: AnyRequest) -> Response[bytes]:
    """Find messages by meaning and words, the best first, with their places in either list."""
    body = await body_of(request, bodies.MessageSearchRequest)
    found = await search(
        request,
        body,
        body.query,
        roles=SPOKEN if body.roles is None else [role.value for role in body.roles],
        project_id=body.project_id,
        template_id=body.template_id,
    )
    return raw(to_json([ranked_message(match) for match in found]))


@dataclass(frozen=True, slots=True)
class Ranked:
    """A message that was found, and its places among those with the words and those that are
    near in meaning, from 1; None for a list that it is not in."""

    message: FoundMessage
    score: float
    worded: int | None
    near: int | None


async def search(
    request: AnyRequest, body: MessageSearch, query: str | None, **others: Any
) -> list[Ranked]:
    """The messages that a request asks for, the best first; blank words find nothing. Where the
    meaning of messages cannot be asked for, `hybrid` finds what has the words."""
    if query is not None and not query.strip():
        return []
    roles = others.pop("roles", SPOKEN)
    asked = Searched(
        org_of(request),
        query,
        roles if query is None else [role for role in roles if role != NOT_SEARCHED],
        body.limit,
        agent_id=body.agent_id,
        conversation_id=body.conversation_id,
        since=body.start_date,
        until=body.end_date,
        **others,
    )
    mode = "fts" if query is None else body.search_mode
    worded, near = await asyncio.gather(
        nothing() if mode == "vector" else api_of(request).search.search(asked),
        nothing() if mode == "fts" else nearest(request, asked, hybrid=mode == "hybrid"),
    )
    by_id = {message.id: message for message in (*worded, *near)}
    lists = [[message.id for message in found] for found in (worded, near)]
    places = [{message_id: place for place, message_id in enumerate(ids, start=1)} for ids in lists]
    return [
        Ranked(by_id[message_id], score, places[0].get(message_id), places[1].get(message_id))
        for message_id, score in fuse_ranks(*lists)[: body.limit]
    ]


async def nothing() -> list[FoundMessage]:
    """The items of a list that is not asked for: none."""
    return []


async def nearest(request: AnyRequest, asked: Searched, *, hybrid: bool) -> list[FoundMessage]:
    """The messages that are near to a query in meaning, the nearest first."""
    assert asked.query is not None, "a query is what they are near to"
    api = api_of(request)
    command = NearestMessages(
        asker=api.ids.new("search"),
        query=asked.query,
        agent_id=asked.agent_id or "",
        conversation_id=asked.conversation_id or "",
        project_id=asked.project_id or "",
        template_id=asked.template_id or "",
        roles=[*asked.roles],
        after=asked.since,
        before=asked.until,
        limit=min(max(asked.limit, CANDIDATES_MIN), MESSAGES_FOUND_MAX),
    )
    seconds = HYBRID_SECONDS_MAX if hybrid else VECTOR_SECONDS_MAX
    try:
        reply = await api.send(
            request, command, message_id=command.asker, keyed=False, seconds_max=seconds
        )
    except (BusUnavailable, Problem) as problem:
        if not hybrid:
            raise
        log.warning("messages are found by their words alone: %s", problem)
        return []
    found: Any = reply.result["messages"]
    return await api.search.by_ids(asked, [message["id"] for message in found]) if found else []


def results_of(found: FoundMessage) -> Iterator[JsonObject]:
    """The parts of a message that was found, each by itself."""
    for message in found.v1_messages:
        field = FOUND.get(message["message_type"])
        if field is not None:
            yield {
                "message_type": message["message_type"],
                field: message[field],
                "message_id": found.id,
                "agent_id": found.agent_id,
                "conversation_id": conversation_of(found),
                "created_at": timestamp(found.created_at),
            }


def ranked_message(match: Ranked) -> JsonObject:
    """A message that was found, as it is stored, and its places."""
    found = match.message
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
        "fts_rank": match.worded,
        "vector_rank": match.near,
        "rrf_score": match.score,
    }


def conversation_of(found: FoundMessage) -> str | None:
    """The conversation of a message, None for its agent's own."""
    own = found.conversation_id == main_conversation(found.agent_id)
    return None if own else found.conversation_id
