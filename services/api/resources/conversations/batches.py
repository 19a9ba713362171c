"""Batches of messages to one agent: each item is answered in a run of its own."""

from __future__ import annotations

from typing import Annotated, Literal

from litestar import Response
from pydantic import Field

from libs.contracts.agent.batches import ITEMS_AT_ONCE_MAX, ITEMS_MAX, CancelBatch
from libs.contracts.letta.batch_requests import MessageBatchRequest
from services.api.adapters.resource_query_builder import Filter, Resource, Where, filter_of
from services.api.http.callers import org_of
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import PAGE_BYTES_MAX, AnyRequest, Page, query_of, valid_id
from services.api.openapi.operation import get, patch, post
from services.api.resources.agents.agents import AGENTS
from services.api.v1.batch_request import batch_body_of, start_batch
from services.api.v1.read_model_responses import answer_page, missing, must_exist

ITEMS_OF_BATCH = "from agent.batch_item_view i where i.batch_id = v.id and i.org = v.org"
STATUSES = ("pending", "running", "completed", "failed", "cancelled")
COUNTED = ", ".join(
    f"'{status}', count(*) filter (where i.status = '{status}')" for status in STATUSES
)
FAILED_ITEM = (
    "jsonb_build_object('number', i.number, 'id', i.id, 'custom_id', i.request->>'custom_id',"
    " 'agent_id', i.agent_id, 'run_id', i.run_id,"
    " 'reason', i.outcome->>'reason')"
)
PROGRESS = (
    f"(select jsonb_build_object('counts', jsonb_build_object('total', count(*), {COUNTED}),"
    " 'percentage', 100 * count(*) filter (where i.status not in ('pending', 'running'))"
    " / greatest(count(*), 1),"
    f" 'failed_items', coalesce(jsonb_agg({FAILED_ITEM} order by i.number)"
    f" filter (where i.status = 'failed'), '[]')) {ITEMS_OF_BATCH})"
)
BATCHES = Resource(
    kind="batch",
    view="agent.batch_view",
    document=(
        "v.fields || jsonb_build_object('id', v.id, 'agent_id', v.agent_id, 'status', v.status,"
        f" 'sequential', v.at_once = 1, 'keep', v.keep) || {PROGRESS}"
    ),
)
# Its result is text, as the agent said it: `jsonb` would change the form of its numbers.
BATCH_ITEMS = Resource(
    kind="batch_item",
    view="agent.batch_item_view",
    document=(
        "json_build_object('id', v.id, 'batch_id', v.batch_id, 'number', v.number,"
        " 'custom_id', v.request->>'custom_id',"
        " 'agent_id', v.agent_id, 'conversation_id', v.conversation_id, 'run_id', v.run_id,"
        " 'status', v.status, 'stop_reason', nullif(v.outcome->>'stop_reason', ''),"
        " 'reason', nullif(v.outcome->>'reason', ''),"
        " 'messages', coalesce(v.outcome->'messages', '[]'), 'usage', v.outcome->'usage',"
        " 'cut', coalesce((v.outcome->>'cut')::boolean, false))"
    ),
    sort_keys={"number": "v.number"},
)

PATH = "/v1/agents/{agent_id:str}/messages/batch"
BATCH = f"{PATH}/{{batch_id:str}}"


class BatchPage(Page):
    """A page of an agent's batches."""

    status: Annotated[
        Literal["created", "running", "completed", "failed", "cancelled"] | None,
        Where("v.status = {}"),
    ] = None


class BatchItemPage(Page):
    """A page of a batch's items, in the order of the request."""

    order: Literal["asc", "desc"] = "asc"
    limit: Annotated[int | None, Field(ge=0, le=ITEMS_MAX)] = ITEMS_MAX
    status: Annotated[
        Literal["pending", "running", "completed", "failed", "cancelled"] | None,
        Where("v.status = {}"),
    ] = None


@post(PATH, "batch", body=MessageBatchRequest, status_code=202)
async def create_batch(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """Have many messages answered, a few at a time; the request is valid as a whole, or nothing
    begins."""
    valid_id("agent", agent_id)
    body = await batch_body_of(request, MessageBatchRequest)
    steps = body.max_steps
    items = [
        item.model_copy(update={"max_steps": steps})
        if steps is not None and "max_steps" not in item.model_fields_set
        else item
        for item in body.items
    ]
    batch_id = await start_batch(
        request,
        [(agent_id, item) for item in items],
        field="items",
        own_conversations=not body.sequential,
        agent_id=agent_id,
        at_once=1 if body.sequential else ITEMS_AT_ONCE_MAX,
        keep=body.keep,
        callback_url=body.callback_url,
    )
    return await answer_batch(request, agent_id, batch_id, status_code=202)


@get(PATH, "batches", query=BatchPage)
async def list_batches(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """List the batches of an agent, the newest first."""
    page = query_of(request, BatchPage)
    await must_exist(request, AGENTS, agent_id)
    found = filter_of(page, org_of(request)).by_key("v.agent_id = %(agent)s", agent=agent_id)
    return await answer_page(request, BATCHES, page, found)


@get(BATCH, "batch")
async def retrieve_batch(request: AnyRequest, agent_id: str, batch_id: str) -> Response[bytes]:
    """Retrieve how far a batch is: its counts, and why items failed."""
    return await answer_batch(request, agent_id, batch_id)


@get(f"{BATCH}/items", "items of a batch", query=BatchItemPage)
async def list_batch_items(request: AnyRequest, agent_id: str, batch_id: str) -> Response[bytes]:
    """List the items of a batch with their results, in the order of the request."""
    page = query_of(request, BatchItemPage)
    await batch_of(request, agent_id, batch_id)
    found = filter_of(page, org_of(request)).by_key("v.batch_id = %(batch)s", batch=batch_id)
    return await answer_page(
        request, BATCH_ITEMS, page, found, key="number", bytes_max=PAGE_BYTES_MAX
    )


@post(f"{BATCH}/cancel", "batch")
async def cancel_batch(request: AnyRequest, agent_id: str, batch_id: str) -> Response[bytes]:
    """Start no more items of a batch, and cancel the runs of those that were started."""
    return await answer_after_cancel(request, agent_id, batch_id)


@patch(f"{BATCH}/cancel", "batch")
async def cancel_batch_as_v1(request: AnyRequest, agent_id: str, batch_id: str) -> Response[bytes]:
    """The same, by the method that V1 cancels its batches with."""
    return await answer_after_cancel(request, agent_id, batch_id)


async def answer_after_cancel(request: AnyRequest, agent_id: str, batch_id: str) -> Response[bytes]:
    """The document of a batch once it is cancelled."""
    valid_id("agent", agent_id)
    command = CancelBatch(batch_id=valid_id("batch", batch_id), agent_id=agent_id)
    await api_of(request).send(request, command)
    return await answer_batch(request, agent_id, batch_id)


async def answer_batch(
    request: AnyRequest, agent_id: str, batch_id: str, *, status_code: int = 200
) -> Response[bytes]:
    """The document of an agent's batch, or the 404 that names it."""
    return raw(await batch_of(request, agent_id, batch_id), status_code)


async def batch_of(request: AnyRequest, agent_id: str, batch_id: str) -> bytes:
    """The document of an agent's batch; raises the 404 that names it."""
    valid_id("agent", agent_id)
    found = Filter(
        ["v.org = %(org)s", "v.id = %(id)s", "v.agent_id = %(agent)s"],
        {"org": org_of(request), "id": valid_id("batch", batch_id), "agent": agent_id},
    )
    document = await api_of(request).reads.first(BATCHES, found)
    if document is None:
        raise missing("batch", batch_id)
    return document
