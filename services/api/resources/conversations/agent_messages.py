"""Messages to an agent, answered at once or as a stream; and its history."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from litestar import Response
from litestar.response import Stream
from pydantic import BaseModel, Field

from libs.contracts.agent.conversations import main_conversation
from libs.contracts.agent.runs import CancelRuns
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta import all_request_bodies as bodies
from libs.contracts.letta import response_and_stream_events
from libs.contracts.letta.enums import StopReasonType
from libs.contracts.letta.message_requests import MessageTypes
from libs.contracts.letta.messages import only_types
from libs.contracts.letta.request_size_limits import Name, Names
from services.api.adapters.conversations.message_queries import History
from services.api.adapters.conversations.run_follower import Ended, StreamedChunk
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem, run_failed
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import AnyRequest, Page, parse, query_of, valid_id
from services.api.http.server_sent_events import Showing, events_of, last_event
from services.api.openapi.operation import get, patch, post
from services.api.resources.agents.agents import AGENTS
from services.api.resources.conversations.runs import RUNS
from services.api.v1.as_of import AsOf, seen_at
from services.api.v1.client_versions import is_legacy
from services.api.v1.message_request import (
    MessageRequest,
    read_request,
    start_and_follow,
    start_run,
)
from services.api.v1.read_model_responses import answer_document, must_exist, slice_of
from services.api.v1.token_logprobs_and_ids import token_details

IMMUTABLE = (
    "Messages cannot be changed: the history of a conversation stays as it was, and other "
    "conversations may share it. Send another message, or reset what the model is shown with "
    "PATCH /v1/agents/{agent_id}/reset-messages."
)
# In so many conversations are runs cancelled by one request.
CONVERSATIONS_AT_ONCE_MAX = 100

PATH = "/v1/agents/{agent_id:str}/messages"
StreamableRequest = MessageRequest[bodies.LettaStreamingRequest]


class MessagePage(Page, AsOf):
    """A page of an agent's messages."""

    order: Literal["asc", "desc"] = "desc"
    limit: Annotated[int | None, Field(ge=0, le=1_000)] = 100
    conversation_id: Name | None = None
    group_id: Name | None = None
    include_return_message_types: MessageTypes | None = None
    include_compaction_messages: bool = False


class RunsToCancel(BaseModel):
    """Which runs are to be cancelled; null means all that have not ended."""

    run_ids: Names | None = None


@get(PATH, "messages", query=MessagePage)
async def list_messages(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """List the messages of an agent, over all its conversations or (`conversation_id`) of one;
    `group_id` leaves those of the runs for a group."""
    page = query_of(request, MessagePage)
    own = page.conversation_id in ("default", agent_id)
    asked = main_conversation(agent_id) if own else page.conversation_id
    types, structured = page.include_return_message_types, page.include_compaction_messages
    history = History(org_of(request), agent_id, asked, types, structured, group_id=page.group_id)
    async with seen_at(request, agent_id, page.at):
        await must_exist(request, AGENTS, agent_id)
        return raw(await api_of(request).messages.messages(history, slice_of(page)))


@post(PATH, "the agent's messages", body=bodies.LettaStreamingRequest)
async def send_message(request: AnyRequest, agent_id: str) -> Response[bytes] | Stream:
    """Send messages to an agent and get its answer, whole or (`streaming`) as it comes."""
    asked = await read_request(request, agent_id, bodies.LettaStreamingRequest)
    if asked.request.streaming:
        if is_legacy(request):
            detail = "streaming=true is for SDK 1.0 or newer: use /messages/stream instead"
            raise Problem(422, {"detail": detail})
        return await stream(request, asked)
    if asked.request.stream_tokens or asked.request.background:
        detail = "`stream_tokens` and `background` need `streaming`: set it to true, or drop them"
        raise Problem(422, {"detail": detail})
    return raw(json.dumps(await whole_answer(request, asked)).encode())


@post(f"{PATH}/stream", "events", body=bodies.LettaStreamingRequest, streams=True)
async def stream_message(request: AnyRequest, agent_id: str) -> Stream:
    """Send messages to an agent and get its answer as server-sent events."""
    return await stream(
        request, await read_request(request, agent_id, bodies.LettaStreamingRequest)
    )


@post(f"{PATH}/async", "the run", body=bodies.LettaAsyncRequest)
async def send_message_async(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """Send messages to an agent and get the run that will answer them, without waiting for it."""
    asked = await read_request(request, agent_id, bodies.LettaAsyncRequest)
    started = await start_run(request, asked)
    return await answer_document(request, RUNS, started.id)


@post(f"{PATH}/cancel", "what became of each run", body=RunsToCancel)
async def cancel_runs(request: AnyRequest, agent_id: str) -> JsonObject:
    """Cancel runs of an agent, wherever they stand: those that are named, or all."""
    asked = parse(await request.body() or b"{}", RunsToCancel)
    valid_id("agent", agent_id)
    wanted = await runs_by_conversation(request, agent_id, asked.run_ids)
    outcome: JsonObject = {}
    refusals: list[Problem] = []
    for conversation_id, run_ids in wanted.items():
        command = CancelRuns(agent_id=agent_id, conversation_id=conversation_id, run_ids=run_ids)
        try:
            outcome |= (await api_of(request).send(request, command)).result
        except Problem as refused:
            refusals.append(refused)
    if len(refusals) == len(wanted):
        raise refusals[0]
    return outcome | {name: "failed" for name in asked.run_ids or () if name not in outcome}


async def runs_by_conversation(
    request: AnyRequest, agent_id: str, run_ids: list[str] | None
) -> dict[str, list[str] | None]:
    """Which runs to cancel in which of an agent's conversations, None for all; the agent's own
    conversation comes first. What is no run of the agent is looked for there, in vain."""
    reads, org = api_of(request).conversation_runs, org_of(request)
    main = main_conversation(agent_id)
    if run_ids is None:
        active = await reads.conversations_with_runs(org, agent_id, CONVERSATIONS_AT_ONCE_MAX)
        return dict.fromkeys([main, *active])
    known = await reads.conversations_of_runs(org, agent_id, run_ids)
    wanted: dict[str, list[str] | None] = {}
    for run_id in run_ids:
        named = wanted.setdefault(known.get(run_id, main), [])
        assert named is not None, "each run is named"
        named.append(run_id)
    return wanted or {main: []}


async def whole_answer(request: AnyRequest, asked: StreamableRequest) -> JsonObject:
    """Start the run and wait for its end."""
    follower = await start_and_follow(request, asked)
    try:
        messages: list[JsonObject] = []
        in_chunks = False
        end: Ended | None = None
        # To the last: the loop would end what is left of the events in a task of its own.
        async for event in follower.events(look_first=asked.look_first(follower)):
            if isinstance(event, StreamedChunk):
                messages.append(event.message)
                in_chunks = in_chunks or event.is_chunk
            elif isinstance(event, Ended):
                end = await follower.complete(event)
        assert end is not None, "following a run ends with its end"
        if end.error:
            raise run_failed(end.error)
        if in_chunks:
            messages = await follower.messages()
        shown = only_types(messages, asked.request.include_return_message_types)
        details = await token_details(request, asked.request, follower.run_id, messages)
        reason = StopReasonType(end.stop_reason)
        return response_and_stream_events.letta_response(shown, reason, end.usage, **details)
    finally:
        await follower.__aexit__()


async def stream(request: AnyRequest, asked: StreamableRequest) -> Stream:
    """Start the run and answer with its events. What is refused is refused before the stream."""
    seen = last_event(request)
    follower = await start_and_follow(request, asked)
    again = asked.look_first(follower)
    # A run that begins with this request has told nothing that could have been seen.
    follower.last_sent = seen if again else 0
    body = asked.request
    showing = Showing(
        numbered=body.background,
        pings=body.include_pings,
        look_first=again,
        types=body.include_return_message_types,
    )
    return events_of(request, follower, showing)


@patch("/v1/agents/{agent_id:str}/messages/{message_id:str}", "nothing")
async def modify_message(request: AnyRequest, agent_id: str, message_id: str) -> Response[Any]:
    """Refused, as V1 does: messages do not change."""
    valid_id("agent", agent_id)
    valid_id("message", message_id)
    raise Problem(405, {"detail": IMMUTABLE})
