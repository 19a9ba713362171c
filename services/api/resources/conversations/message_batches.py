"""V1's batches: messages to many agents at once, each answered in its agent's own conversation."""

from __future__ import annotations

from typing import Annotated, Literal

from litestar import Response
from pydantic import Field
from pydantic_core import to_json

from libs.contracts.agent.batches import CancelBatch
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta import all_request_bodies as bodies
from libs.contracts.letta.request_size_limits import Name
from services.api.adapters.conversations.batch_message_queries import (
    BatchMessage,
    BatchMessageQueries,
)
from services.api.adapters.resource_query_builder import Resource, filter_of
from services.api.http.callers import org_of
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import (
    PAGE_ITEMS_MAX,
    AnyRequest,
    Page,
    query_of,
    valid_id,
)
from services.api.openapi.operation import get, patch, post
from services.api.resources.conversations.batches import PROGRESS
from services.api.v1.batch_request import batch_body_of, start_batch
from services.api.v1.context_window import raw_message
from services.api.v1.read_model_responses import (
    answer_document,
    answer_page,
    must_exist,
    slice_of,
)

JOBS = Resource(
    kind="batch",
    view="agent.batch_view",
    document=(
        "jsonb_build_object('created_by_id', v.fields->'created_by_id', 'last_updated_by_id',"
        " v.fields->'created_by_id', 'updated_at', coalesce(v.fields->'completed_at',"
        " v.fields->'created_at'), 'metadata', jsonb_build_object('job_type', 'batch_messages'),"
        " 'job_type', 'batch', 'ttft_ns', null, 'total_duration_ns',"
        " (extract(epoch from v.completed_at - v.created_at) * 1000000000)::bigint,"
        " 'user_id', v.fields->'created_by_id', 'organization_id', v.org) || v.fields"
        " || jsonb_build_object('id', v.id, 'agent_id', v.agent_id, 'status', v.status)"
        f" || {PROGRESS}"  # which V1 lacks
    ),
)
OPEN = "v.completed_at is null"


class JobPage(Page):
    """A page of the batches that have not ended: V1 lists no others."""

    order_by: Literal["created_at"] = "created_at"


class BatchMessagePage(Page):
    """A page of the messages of a batch."""

    limit: Annotated[int | None, Field(ge=0, le=PAGE_ITEMS_MAX)] = 100
    order_by: Literal["created_at"] = "created_at"
    agent_id: Name | None = None


@post("/v1/messages/batches", "batch job", body=bodies.CreateBatch)
async def create_message_batch(request: AnyRequest) -> Response[bytes]:
    """Have messages to many agents answered, a few at a time."""
    body = await batch_body_of(request, bodies.CreateBatch)
    batch_id = await start_batch(
        request,
        [(each.agent_id, each) for each in body.requests],
        field="requests",
        own_conversations=False,
        callback_url=str(body.callback_url) if body.callback_url else None,
    )
    return await answer_document(request, JOBS, batch_id)


@get("/v1/messages/batches", "batch jobs", query=JobPage)
async def list_message_batches(request: AnyRequest) -> Response[bytes]:
    """List the batches that have not ended, the newest first."""
    page = query_of(request, JobPage)
    return await answer_page(request, JOBS, page, filter_of(page, org_of(request)).add(OPEN))


@get("/v1/messages/batches/{batch_id:str}", "batch job")
async def retrieve_message_batch(request: AnyRequest, batch_id: str) -> Response[bytes]:
    """Retrieve a batch by its id."""
    return await answer_document(request, JOBS, batch_id)


@get(
    "/v1/messages/batches/{batch_id:str}/messages",
    "the messages of a batch",
    query=BatchMessagePage,
)
async def list_messages_of_batch(request: AnyRequest, batch_id: str) -> Response[bytes]:
    """List the messages of the runs of a batch: those that were sent, and the answers."""
    page = query_of(request, BatchMessagePage)
    await must_exist(request, JOBS, batch_id)
    queries = BatchMessageQueries(api_of(request).reads.database)
    found = await queries.messages(org_of(request), batch_id, page.agent_id, slice_of(page))
    return raw(to_json({"messages": [as_v1_stores(each) for each in found]}))


@patch("/v1/messages/batches/{batch_id:str}/cancel", "null")
async def cancel_message_batch(request: AnyRequest, batch_id: str) -> None:
    """Start no more items of a batch, and cancel the runs of those that were started."""
    command = CancelBatch(batch_id=valid_id("batch", batch_id))
    await api_of(request).send(request, command)


def as_v1_stores(found: BatchMessage) -> JsonObject:
    """A message of a batch as V1 stores it, with the client's own id of its item, if it has one."""
    custom = {} if found.custom_id is None else {"custom_id": found.custom_id}
    return {**raw_message(found.message, found.agent), "batch_item_id": found.item_id, **custom}
