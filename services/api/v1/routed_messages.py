"""Routed messages: send one, wait for its end, and show what came of it."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json

from libs.contracts.agent.conversations import Message
from libs.contracts.bus_messages import JsonObject
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.groups.routing import (
    Recipients,
    RoutedRequest,
    RouteMessage,
    routed_message_deltas,
)
from libs.contracts.letta import response_and_stream_events
from libs.contracts.letta.enums import StopReasonType
from libs.contracts.letta.routing_requests import RoutedMessages, RouteRequest
from libs.work.progress import Progress, follow
from services.api.adapters.resource_query_builder import Resource
from services.api.http.callers import org_of
from services.api.http.error_responses import STATUS, Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.per_path_concurrency_limits import end_turn
from services.api.http.request_parsing import AnyRequest
from services.api.v1.read_model_responses import document_of

LOOK_SECONDS = 2.0
DELIVERIES = (
    "(select coalesce(jsonb_agg(jsonb_build_object('number', d.number, 'agent_id', d.agent_id,"
    " 'run_id', d.run_id, 'purpose', d.purpose, 'stage', d.stage, 'status', d.status,"
    " 'sent_at', d.sent_at, 'ended_at', d.ended_at, 'bid', d.bid, 'error', d.reason)"
    " order by d.number), '[]') from groups.routed_delivery_view d"
    " where d.routed_message_id = v.id and d.org = v.org)"
)
ROUTED_MESSAGES = Resource(
    kind="routed_message",
    view="groups.routed_message_view",
    document=(
        "jsonb_build_object('id', v.id, 'pattern', v.pattern, 'recipients', v.recipients,"
        " 'status', v.status, 'created_at', v.created_at, 'deadline_at', v.deadline_at,"
        " 'ended_at', v.ended_at, 'answers', coalesce(v.answers, '[]'), 'error', v.error,"
        f" 'deliveries', {DELIVERIES})"
    ),
)


def command_of(
    request: AnyRequest, body: RoutedMessages, recipients: Recipients, *, scope: str = ""
) -> RouteMessage:
    """The command that routes the messages of a body."""
    api = api_of(request)
    routed_id = api.new_id(request, "routed_message", scope)
    wanted = body if isinstance(body, RouteRequest) else RouteRequest.model_construct()
    now = api.clock.now()
    messages = [
        Message(
            id=derived_id("message", routed_id, str(index)),
            role=sent.role.value,
            content=sent.model_dump(mode="json")["content"],
            created_at=now,
            name=sent.name,
            sender_id=sent.sender_id,
        )
        for index, sent in enumerate(body.messages or [])
    ]
    routed = RoutedRequest(
        pattern=wanted.pattern,
        recipients=recipients,
        messages=messages,
        max_steps=body.max_steps,
        award=wanted.award.rule() if wanted.award else None,
        tell_losers=wanted.tell_losers and wanted.pattern == "contract_net",
    )
    return RouteMessage(
        routed_message_id=routed_id,
        request=routed,
        caller_run_id=body.caller_run_id or "",
        seconds_max=body.deadline_seconds,
    )


async def send(request: AnyRequest, command: RouteMessage) -> None:
    """Have a message routed; raises the Problem that says why it is not."""
    await api_of(request).send(request, command, message_id=command.routed_message_id)
    end_turn(request.scope["state"])  # the agents may take long


async def send_and_wait(request: AnyRequest, command: RouteMessage) -> dict[str, Any]:
    """Have a message routed, and return its document once it has ended. Raises the 503 that says
    that no agent was available."""
    subject = routed_message_deltas(org_of(request), command.routed_message_id)
    async with follow(api_of(request).bus, subject) as progress:
        await send(request, command)
        await progress.next(LOOK_SECONDS)
        return await wait_for_end(request, command.routed_message_id, progress)


async def send_and_hear(request: AnyRequest, command: RouteMessage) -> JsonObject:
    """Have a message routed to one agent, and return its answer: as it is told, or as the rows say.
    Raises the 503 that says that no agent was available."""
    routed_id = command.routed_message_id
    subject = routed_message_deltas(org_of(request), routed_id)
    async with follow(api_of(request).bus, subject) as progress:
        await send(request, command)
        heard = await progress.next(LOOK_SECONDS)
        if heard and "run_id" in heard:
            named = {name: heard[name] for name in ("agent_id", "run_id", "attempts")}
            ended = {name: heard[name] for name in ("stop_reason", "usage") if heard.get(name)}
            return await letta_response(request, {"routed_message_id": routed_id, **named}, ended)
        document = await wait_for_end(request, routed_id, progress)
    return await letta_response(request, routed_to_of(document))


async def wait_for_end(request: AnyRequest, routed_id: str, progress: Progress) -> dict[str, Any]:
    """The document of a message that has ended."""
    while True:
        document: dict[str, Any] = from_json(await document_of(request, ROUTED_MESSAGES, routed_id))
        if document["status"] == "failed":
            raise failure(document)
        if document["status"] != "active":
            return document
        await progress.next(LOOK_SECONDS)


def failure(document: dict[str, Any]) -> Problem:
    """The answer where a message found nobody who answered; another try would find the same."""
    error = document["error"]
    body: JsonObject = {"detail": error["reason"], "routed_message": document}
    return Problem(STATUS[error["code"]], body, {"x-should-retry": "false"})


async def messages_of(request: AnyRequest, run_id: str) -> list[JsonObject]:
    """The answer of a run, as V1 messages."""
    parts = await api_of(request).runs.run_answer(org_of(request), run_id)
    return [message for part in parts for message in part.v1_messages]


def routed_to_of(document: dict[str, Any]) -> JsonObject:
    """The agent that answered a message that has ended, and its run."""
    delivery = document["deliveries"][document["answers"][-1] - 1]
    return {
        "routed_message_id": document["id"],
        "agent_id": delivery["agent_id"],
        "run_id": delivery["run_id"],
        "attempts": len(document["deliveries"]),
    }


async def letta_response(
    request: AnyRequest, routed_to: JsonObject, ended: dict[str, Any] | None = None
) -> JsonObject:
    """The answer of one agent, as V1's reply to a message, and who it was. `ended` are the stop
    reason and the usage of its run, where they are known."""
    run_id = str(routed_to["run_id"])
    messages = await messages_of(request, run_id)
    if not ended or len(ended) < 2:
        run = await api_of(request).runs.run_end(org_of(request), run_id)
        ended = {
            "stop_reason": (run and run.stop_reason) or "end_turn",
            "usage": (run and run.usage) or {},
        }
    reason = StopReasonType(ended["stop_reason"])
    response = response_and_stream_events.letta_response(messages, reason, ended["usage"])
    return {**response, "routed_to": routed_to}


async def with_answers(request: AnyRequest, document: dict[str, Any]) -> JsonObject:
    """A routed message with what each agent has answered, or why it did not."""
    deliveries = [
        {**delivery, "messages": await messages_of(request, delivery["run_id"])}
        if delivery["status"] == "delivered" and delivery["purpose"] != "notice"
        else delivery
        for delivery in document["deliveries"]
    ]
    return {**document, "deliveries": deliveries}
