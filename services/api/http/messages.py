"""Messages to an agent, answered at once or as a stream; and its history."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any, Literal

from litestar import Response, get, post
from litestar.response import Stream
from pydantic import Field

from libs.contracts.conversation import Message, StartRun, main_conversation
from libs.contracts.ids import derived_id
from libs.contracts.letta import errors, replies, requests
from libs.contracts.letta.kinds import MessageType, StopReasonType
from libs.contracts.letta.message_requests import MessageCreate
from libs.contracts.letta.messages import Envelope, only_types
from libs.contracts.letta.runs import run_config
from libs.contracts.message import Accepted, JsonObject
from services.api.adapters.reads import Filter
from services.api.adapters.runs import Ended, RunFollower, Served
from services.api.http.agents import is_legacy
from services.api.http.described import described
from services.api.http.problems import Problem, run_failed
from services.api.http.reading import AnyRequest, Page, body_of, query_of, valid_id
from services.api.http.shared import ORG, Api, api_of, missing, raw, slice_of

STEPS_MAX = 1_000
UNBUILT_FIELDS = (
    "client_tools",
    "client_skills",
    "override_model",
    "override_system",
    "return_logprobs",
    "top_logprobs",
    "return_token_ids",
)


class MessagePage(Page):
    """A page of an agent's messages."""

    order: Literal["asc", "desc"] = "desc"
    limit: Annotated[int | None, Field(ge=0, le=1_000)] = 100
    conversation_id: str | None = None
    include_return_message_types: list[MessageType] | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A message request, read and given its ids."""

    command: StartRun
    request: requests.LettaStreamingRequest
    named_by_client: bool


@get("/v1/agents/{agent_id:str}/messages", opt=described("messages", query=MessagePage))
async def list_messages(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """List the messages of an agent."""
    reads = api_of(request).reads
    page = query_of(request, MessagePage)
    if not await reads.agent_exists(ORG, valid_id("agent", agent_id)):
        raise missing("agent", agent_id)
    history = Filter()
    main = main_conversation(agent_id)
    asked = main if page.conversation_id in (None, "default", agent_id) else page.conversation_id
    history.add("m.conversation_id = %(conversation)s", "conversation", asked)
    history.add("m.agent_id = %(agent)s", "agent", agent_id)
    types = page.include_return_message_types
    return raw(await reads.messages(agent_id, history, slice_of(page), types))


@post(
    "/v1/agents/{agent_id:str}/messages",
    status_code=200,
    opt=described("the agent's messages", body=requests.LettaStreamingRequest),
)
async def send_message(request: AnyRequest, agent_id: str) -> Response[bytes] | Stream:
    """Send messages to an agent and get its answer, whole or (`streaming`) as it comes."""
    asked = await read_request(request, agent_id)
    if asked.request.streaming:
        if is_legacy(request):
            detail = "streaming=true is for SDK 1.0 or newer: use /messages/stream instead"
            raise Problem(422, {"detail": detail})
        return await stream(request, asked)
    if asked.request.stream_tokens or asked.request.background:
        detail = "`stream_tokens` and `background` need `streaming`: set it to true, or drop them"
        raise Problem(422, {"detail": detail})
    return raw(json.dumps(await whole_answer(request, asked)).encode())


@post(
    "/v1/agents/{agent_id:str}/messages/stream",
    status_code=200,
    opt=described("events", body=requests.LettaStreamingRequest, streams=True),
)
async def stream_message(request: AnyRequest, agent_id: str) -> Stream:
    """Send messages to an agent and get its answer as server-sent events."""
    return await stream(request, await read_request(request, agent_id))


async def read_request(request: AnyRequest, agent_id: str) -> Asked:
    """The request, valid and with the id of the run that will answer it."""
    api = api_of(request)
    valid_id("agent", agent_id)
    body = await body_of(request, requests.LettaStreamingRequest)
    if not body.sent:
        raise Problem(422, errors.MESSAGES_EMPTY)
    if not all(isinstance(one, MessageCreate) for one in body.sent):
        detail = (
            "`messages`: approvals and tool returns are not built yet: send messages of "
            "`type` message"
        )
        raise Problem(422, {"detail": detail})
    if not 1 <= body.max_steps <= STEPS_MAX:
        raise Problem(422, {"detail": f"`max_steps` must be between 1 and {STEPS_MAX}"})
    for field in UNBUILT_FIELDS:
        if getattr(body, field):
            detail = f"`{field}` is not built yet: leave the field out"
            raise Problem(422, {"detail": detail})
    name = named_run(request, agent_id, body)
    run_id = name or api.ids.new("run")
    now = api.clock.now()
    run = run_config(
        body, id=run_id, agent_id=agent_id, created_at=now, metadata={"run_type": "send_message"}
    )
    command = StartRun(
        agent_id=agent_id,
        run=run,
        messages=[stored(run_id, n, one, now) for n, one in enumerate(body.sent)],
        max_steps=body.max_steps,
        request_hash=sha256(await request.body()).hexdigest(),
        retry=name is None and is_retry(request),
    )
    return Asked(command, body, named_by_client=name is not None or command.retry)


def named_run(
    request: AnyRequest, agent_id: str, body: requests.LettaStreamingRequest
) -> str | None:
    """The run's id where the client names its request: by a key, or by its messages' otids."""
    key = request.headers.get("idempotency-key")
    if key:
        return derived_id("run", ORG, agent_id, "key", key)
    otids = [one.otid for one in body.sent]
    if otids and all(otids):
        return derived_id("run", ORG, agent_id, "otids", *map(str, otids))
    return None


def is_retry(request: AnyRequest) -> bool:
    """Whether an SDK says that it lost the answer and asks again."""
    count = request.headers.get("x-stainless-retry-count", "0")
    return count.isdigit() and int(count) > 0


def stored(run_id: str, index: int, sent: Any, now: Any) -> Message:
    """A message as it will stand in the history."""
    return Message(
        id=derived_id("message", run_id, str(index)),
        role=sent.role.value,
        content=sent.model_dump(mode="json")["content"],
        created_at=now,
        otid=sent.otid or derived_id("otid", run_id, str(index)).removeprefix("otid-"),
        name=sent.name,
        sender_id=sent.sender_id,
    )


async def started(request: AnyRequest, asked: Asked) -> str:
    """Start the run; returns the id of the run that answers, which may be an earlier one."""
    reply: Accepted = await api_of(request).send(
        request, asked.command, message_id=asked.command.run.id
    )
    if reply.result["request_hash"] != asked.command.request_hash:
        detail = (
            "This Idempotency-Key (or these otids) came before with another request: use a new "
            "one for a new request"
        )
        raise Problem(409, {"detail": detail}, {"x-should-retry": "false"})
    return str(reply.result["run_id"])


async def whole_answer(request: AnyRequest, asked: Asked) -> JsonObject:
    """Start the run and wait for its end."""
    api = api_of(request)
    messages: list[JsonObject] = []
    async for event in follow(request, api, asked):
        if isinstance(event, Served):
            messages.append(event.message)
        elif isinstance(event, Ended):
            if event.error:
                raise run_failed(event.error)
            return {
                "messages": [*only_types(messages, asked.request.include_return_message_types)],
                "stop_reason": replies.stop_reason(StopReasonType(event.stop_reason)),
                "usage": event.usage,
                "logprobs": None,
                "turns": None,
            }
    raise AssertionError("following a run ends with its end")


async def follow(request: AnyRequest, api: Api, asked: Asked) -> AsyncIterator[Any]:
    """Start the run and pass on everything that is told of it."""
    wanted = asked.command.run.id
    async with RunFollower(api.reads, api.bus, ORG, wanted) as follower:
        run_id = await started(request, asked)
        if run_id == wanted:
            async for event in follower.events(look_first=asked.named_by_client):
                yield event
            return
    async with RunFollower(api.reads, api.bus, ORG, run_id) as earlier:
        async for event in earlier.events(look_first=True):
            yield event


async def stream(request: AnyRequest, asked: Asked) -> Stream:
    """Start the run and answer with its events. What is refused is refused before the stream."""
    api = api_of(request)
    follower = RunFollower(api.reads, api.bus, ORG, asked.command.run.id)
    await follower.__aenter__()
    try:
        run_id = await started(request, asked)
    except BaseException:
        await follower.__aexit__()
        raise
    if run_id != follower.run_id:
        await follower.__aexit__()
        follower = RunFollower(api.reads, api.bus, ORG, run_id)
        await follower.__aenter__()
    return Stream(
        sse(request, asked, follower),
        media_type="text/event-stream; charset=utf-8",
        headers={"cache-control": "no-cache", "x-accel-buffering": "no"},
    )


async def sse(request: AnyRequest, asked: Asked, follower: RunFollower) -> AsyncIterator[bytes]:
    """The events of a run as server-sent events: a ping with the run's id, the messages, the
    stop reason, the usage, `[DONE]`."""
    api = api_of(request)
    types = asked.request.include_return_message_types
    stopping = request.app.state.stopping
    ping_seconds: float = request.app.state.ping_seconds
    try:
        yield data(ping(api, follower.run_id))
        spoke_at = api.clock.monotonic()
        async for event in follower.events(look_first=asked.named_by_client):
            if isinstance(event, Served):
                spoke_at = api.clock.monotonic()
                for message in only_types([event.message], types):
                    yield b"id: %d\n" % event.number + data(message)
            elif isinstance(event, Ended):
                for chunk in closing(follower.run_id, event):
                    yield chunk
                return
            elif asked.request.include_pings and api.clock.monotonic() - spoke_at >= ping_seconds:
                spoke_at = api.clock.monotonic()
                yield data(ping(api, follower.run_id))
            if stopping.is_set():
                return
    finally:
        await follower.__aexit__()


def closing(run_id: str, end: Ended) -> list[bytes]:
    """The last events of a stream."""
    chunks = [data(replies.stop_reason(StopReasonType(end.stop_reason)))]
    if end.error:
        problem = replies.error_message(
            run_id,
            str(end.error["error_type"]),
            str(end.error["message"]),
            detail=end.error.get("detail"),
        )
        chunks.append(b"event: error\n" + data(problem))
    else:
        chunks.append(data(end.usage))
    return [*chunks, b"data: [DONE]\n\n"]


def ping(api: Api, run_id: str) -> JsonObject:
    """A keepalive that carries the run's id."""
    envelope = Envelope(id=api.ids.new("ping"), date=api.clock.now(), run_id=run_id)
    return replies.ping(envelope)


def data(document: JsonObject) -> bytes:
    """One event without a name: SDKs pass over named ones."""
    return b"data: " + json.dumps(document).encode() + b"\n\n"
