"""Messages to groups, answered at once, as a stream or later; and the transcripts of groups."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from litestar import Response
from litestar.response import Stream
from pydantic import BaseModel, Field

from libs.contracts.bus_messages import JsonObject
from libs.contracts.groups.group_runs import (
    CancelGroupRun,
    EditGroupMessage,
    ResetGroupMessages,
)
from libs.contracts.letta.message_requests import Content, MessageTypes
from libs.contracts.letta.messages import only_types
from libs.contracts.letta.request_size_limits import Name, Names
from services.api.adapters.resource_query_builder import Filter, Resource, Where, filter_of
from services.api.http.callers import org_of
from services.api.http.error_responses import run_failed
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import (
    PAGE_BYTES_MAX,
    AnyRequest,
    Page,
    body_of,
    parse,
    query_of,
    valid_id,
)
from services.api.openapi.operation import get, patch, post
from services.api.resources.groups.groups import GROUPS, paths
from services.api.v1.group_message_request import (
    GroupRequest,
    GroupStreamRequest,
    read_group_request,
    start_group_run,
)
from services.api.v1.group_run_following import GroupRunFollower, answer_of, group_events
from services.api.v1.read_model_responses import (
    answer_document,
    answer_page,
    missing,
    must_exist,
)

GROUP_RUNS = Resource(kind="group_run", view="groups.group_run_view", document="v.document")
GROUP_MESSAGES = Resource(
    kind="message",
    view="groups.group_message_view",
    document="v.document",
    sort_keys={"number": "v.number"},
)
IN_GROUP = "v.group_id = %(group)s"


class GroupMessagePage(Page):
    """A page of a transcript; with `agent_id` what this member may know of it."""

    limit: Annotated[int | None, Field(ge=0, le=1_000)] = 100
    order: Literal["asc", "desc"] = "asc"
    use_assistant_message: bool = True
    agent_id: Annotated[
        Name | None, Where("(cardinality(v.recipients) = 0 or {} = any(v.recipients))")
    ] = None
    include_return_message_types: Annotated[
        MessageTypes | None, Where("v.message_type = any({})")
    ] = None


class GroupRunPage(Page):
    """A page of a group's runs."""

    limit: Annotated[int | None, Field(ge=0, le=1_000)] = 50
    status: Annotated[Name | None, Where("v.status = {}")] = None


class GroupRunsToCancel(BaseModel):
    """Which runs of a group are to be cancelled; null means all that have not ended."""

    run_ids: Names | None = None


class GroupMessageEdit(BaseModel):
    """The new text of a message of a transcript."""

    content: Content


@get(paths("/messages"), "messages", query=GroupMessagePage)
async def list_group_messages(request: AnyRequest, group_id: str) -> Response[bytes]:
    """List the messages of a group's transcript, the oldest first."""
    page = query_of(request, GroupMessagePage)
    await must_exist(request, GROUPS, group_id)
    found = filter_of(page, org_of(request)).by_key(IN_GROUP, group=group_id)
    return await answer_page(
        request, GROUP_MESSAGES, page, found, key="number", bytes_max=PAGE_BYTES_MAX
    )


@post(paths("/messages"), "what the members say", body=GroupStreamRequest)
async def send_group_message(request: AnyRequest, group_id: str) -> Response[bytes] | Stream:
    """Send messages to a group and get what its members answer, whole or (`streaming`) as they
    come."""
    await must_exist(request, GROUPS, group_id)
    body, command = await read_group_request(request, group_id, GroupStreamRequest)
    if body.streaming:
        return await stream(request, body, await start_group_run(request, command))
    run_id = await start_group_run(request, command)
    async with GroupRunFollower(request, run_id) as follower:
        run = await follower.end()
    if run["status"] == "failed":
        raise run_failed(run["error"])
    answer = await answer_of(request, run)
    answer["messages"] = only_types(answer["messages"], body.include_return_message_types)
    return Response(json.dumps(answer).encode(), media_type="application/json")


@post(paths("/messages/stream"), "events", body=GroupStreamRequest, streams=True)
async def stream_group_message(request: AnyRequest, group_id: str) -> Stream:
    """Send messages to a group and get what its members answer as server-sent events."""
    await must_exist(request, GROUPS, group_id)
    body, command = await read_group_request(request, group_id, GroupStreamRequest)
    return await stream(request, body, await start_group_run(request, command))


async def stream(request: AnyRequest, body: GroupStreamRequest, run_id: str) -> Stream:
    """The events of a run of a group, from its first."""
    return group_events(
        request, run_id, types=body.include_return_message_types, pings=body.include_pings
    )


@post(paths("/messages/async"), "the group's run", body=GroupRequest)
async def send_group_message_async(request: AnyRequest, group_id: str) -> Response[bytes]:
    """Send messages to a group and get the run that will answer them, without waiting for it."""
    await must_exist(request, GROUPS, group_id)
    _, command = await read_group_request(request, group_id, GroupRequest)
    run_id = await start_group_run(request, command)
    return await answer_document(request, GROUP_RUNS, run_id)


@get(paths("/runs"), "runs of the group", query=GroupRunPage)
async def list_group_runs(request: AnyRequest, group_id: str) -> Response[bytes]:
    """List the runs of a group, the newest first."""
    page = query_of(request, GroupRunPage)
    await must_exist(request, GROUPS, group_id)
    found = filter_of(page, org_of(request)).by_key(IN_GROUP, group=group_id)
    return await answer_page(request, GROUP_RUNS, page, found, bytes_max=PAGE_BYTES_MAX)


@get(paths("/runs/{group_run_id:str}"), "the group's run")
async def retrieve_group_run(
    request: AnyRequest, group_id: str, group_run_id: str
) -> Response[bytes]:
    """Retrieve a run of a group with its hops."""
    await must_exist(request, GROUPS, group_id)
    return await answer_of_group(request, GROUP_RUNS, group_id, group_run_id)


async def answer_of_group(
    request: AnyRequest, resource: Resource, group_id: str, resource_id: str
) -> Response[bytes]:
    """The group's thing of this id, or the 404 that names it."""
    known = valid_id(resource.kind, resource_id)
    conditions = ["v.org = %(org)s", "v.id = %(id)s", IN_GROUP]
    values = {"org": org_of(request), "id": known, "group": group_id}
    body = await api_of(request).reads.first(resource, Filter(conditions, values))
    if body is None:
        raise missing(resource.kind, resource_id)
    return raw(body)


@post(paths("/messages/cancel"), "what became of each run", body=GroupRunsToCancel)
async def cancel_group_runs(request: AnyRequest, group_id: str) -> JsonObject:
    """Cancel runs of a group: those that are named, or all."""
    asked = parse(await request.body() or b"{}", GroupRunsToCancel)
    await must_exist(request, GROUPS, group_id)
    command = CancelGroupRun(group_id=group_id, run_ids=asked.run_ids)
    return (await api_of(request).send(request, command)).result


@patch(paths("/messages/{message_id:str}"), "message", body=GroupMessageEdit)
async def modify_group_message(
    request: AnyRequest, group_id: str, message_id: str
) -> Response[bytes]:
    """Change what a message of a transcript says; members that have seen it are not told."""
    await must_exist(request, GROUPS, group_id)
    valid_id("message", message_id)
    body = await body_of(request, GroupMessageEdit)
    content = body.model_dump(mode="json")["content"]
    command = EditGroupMessage(group_id=group_id, message_id=message_id, content=content)
    await api_of(request).send(request, command)
    return await answer_of_group(request, GROUP_MESSAGES, group_id, message_id)


@patch(paths("/reset-messages"), "nothing")
async def reset_group_messages(request: AnyRequest, group_id: str) -> Response[Any]:
    """Empty the transcript of a group; its members begin anew."""
    await must_exist(request, GROUPS, group_id)
    await api_of(request).send(request, ResetGroupMessages(group_id=group_id))
    return Response(None, status_code=200)
