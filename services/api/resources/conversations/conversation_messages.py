"""Messages to a conversation and from it, and the streams of its runs."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from litestar import Response
from litestar.response import Stream
from pydantic import Field

from libs.contracts.letta import all_request_bodies as bodies
from libs.contracts.letta.message_requests import MessageTypes
from libs.contracts.letta.request_size_limits import Name
from services.api.adapters.conversations.message_queries import History
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import (
    PAGE_ITEMS_MAX,
    AnyRequest,
    Page,
    body_of,
    parse,
    query_of,
    valid_id,
)
from services.api.openapi.operation import get, post
from services.api.resources.agents.agent_context import preview
from services.api.resources.conversations.agent_messages import stream, whole_answer
from services.api.resources.conversations.conversations import CONVERSATION, addressee
from services.api.resources.conversations.runs import stream_of_run
from services.api.v1.message_request import Addressee, address, run_of_otids
from services.api.v1.read_model_responses import slice_of


class ConversationMessagePage(Page):
    """A page of a conversation's messages."""

    order: Literal["asc", "desc"] = "desc"
    order_by: Literal["created_at"] = "created_at"
    limit: Annotated[int | None, Field(ge=0, le=PAGE_ITEMS_MAX)] = 100
    agent_id: Name | None = None
    group_id: Name | None = None
    include_return_message_types: MessageTypes | None = None
    include_compaction_messages: bool = False


@get(f"{CONVERSATION}/messages", "messages", query=ConversationMessagePage)
async def list_conversation_messages(request: AnyRequest, conversation_id: str) -> Response[bytes]:
    """List the messages of a conversation, the newest first."""
    page = query_of(request, ConversationMessagePage)
    to = await addressee(request, conversation_id, page.agent_id, is_required=True)
    org, types = org_of(request), page.include_return_message_types
    structured = page.include_compaction_messages
    history = History(
        org,
        to.agent_id,
        to.conversation_id,
        types,
        structured,
        ordered=True,
        group_id=page.group_id,
    )
    return raw(await api_of(request).messages.messages(history, slice_of(page)))


@post(
    f"{CONVERSATION}/messages", "the answer", body=bodies.ConversationMessageRequest, streams=True
)
async def send_conversation_message(
    request: AnyRequest, conversation_id: str
) -> Response[bytes] | Stream:
    """Send messages to a conversation and get the answer, as it comes or (`streaming` false) whole.
    While another request is being answered there, it is refused."""
    body = await body_of(request, bodies.ConversationMessageRequest)
    to = await addressee(request, conversation_id, body.agent_id, unless_busy=True)
    asked = await address(request, body, to)
    if body.streaming:
        return await stream(request, asked)
    if body.stream_tokens or body.background:
        detail = "`stream_tokens` and `background` need `streaming`: leave it true, or drop them"
        raise Problem(422, {"detail": detail})
    return raw(json.dumps(await whole_answer(request, asked)).encode())


@post(
    f"{CONVERSATION}/messages/preview-raw-payload",
    "what the model would be asked",
    body=bodies.LettaStreamingRequest,
)
async def preview_conversation_request(
    request: AnyRequest, conversation_id: str
) -> Response[bytes]:
    """Show what the model would be asked for these messages, in its provider's words."""
    body = await body_of(request, bodies.ConversationMessageRequest)
    to = await addressee(request, conversation_id, body.agent_id)
    return await preview(request, await address(request, body, to))


@post(f"{CONVERSATION}/stream", "events", body=bodies.RetrieveStreamRequest, streams=True)
async def resume_conversation_stream(request: AnyRequest, conversation_id: str) -> Stream:
    """Go on reading the stream of a background run of a conversation: the one that is named by its
    id or by the otid of a message, or the one that has not ended."""
    asked = parse(await request.body() or b"{}", bodies.RetrieveStreamRequest)
    to = await addressee(request, conversation_id, asked.agent_id, is_required=True)
    return await stream_of_run(request, await run_to_resume(request, to, asked), asked)


async def run_to_resume(
    request: AnyRequest, to: Addressee, asked: bodies.RetrieveStreamRequest
) -> str:
    """The id of the run whose stream is wanted. Raises the 400 or the 404 that says there is
    none."""
    runs = api_of(request).conversation_runs
    if asked.run_id is not None:
        run_id = valid_id("run", asked.run_id)
        if await runs.conversation_of_run(org_of(request), run_id) != to.conversation_id:
            raise Problem(404, {"detail": f"Run {run_id} not found."})
        return run_id
    if asked.otid is not None:
        named = run_of_otids(org_of(request), to.name, [asked.otid])
        found = await runs.run_of_otid(org_of(request), to.conversation_id, asked.otid, named)
        if found is None:
            detail = (
                f"No run found for otid={asked.otid}: none of this conversation's last messages "
                "has it"
            )
            raise Problem(404, {"detail": detail})
        return found
    active = await runs.active_run(org_of(request), to.conversation_id)
    if active is None:
        raise Problem(400, {"detail": "No active runs found for this conversation."})
    return active
