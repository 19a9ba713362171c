"""Runs, and the streams of those in the background."""

from __future__ import annotations

from typing import Annotated, Literal

from litestar import Response
from litestar.response import Stream
from pydantic import Field
from pydantic_core import from_json, to_json

from libs.contracts.agent.conversations import main_conversation
from libs.contracts.agent.runs import DeleteRun
from libs.contracts.letta import all_request_bodies as bodies
from libs.contracts.letta.request_size_limits import Name, Names
from libs.contracts.letta.runs import run_usage
from services.api.adapters.conversations.run_follower import RunFollower
from services.api.adapters.conversations.run_follower_queries import RunRow
from services.api.adapters.conversations.run_trace_spans import spans_of
from services.api.adapters.conversations.step_sql_expressions import (
    RUN_METRICS,
    RUN_TRACE,
    RUN_USAGE,
)
from services.api.adapters.resource_query_builder import Resource, Where, any_of, filter_of
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import (
    PAGE_ITEMS_MAX,
    AnyRequest,
    Page,
    Query,
    parse,
    query_of,
    valid_id,
)
from services.api.http.server_sent_events import Showing, events_of, last_event
from services.api.openapi.operation import delete, get, post
from services.api.resources.conversations.steps import STEPS, StepsOfRunPage
from services.api.v1.read_model_responses import (
    answer_document,
    answer_page,
    document_of,
    missing,
    slice_of,
)

RUNS = Resource(
    kind="run",
    view="agent.run_view",
    document="v.fields",
    sort_keys={
        "created_at": "v.created_at",
        "duration": "coalesce((v.fields->>'total_duration_ns')::bigint, 0)",
    },
    created_view="agent.created_run_view",
)
# Written out, as in the index of these runs: a plan that knows no values cannot use it otherwise.
ACTIVE = "v.status in ('created', 'running')"
SPANS_MAX = 5_000


def started_for(name: str) -> Where:
    """The condition that a run was started for a schedule, a batch or a group, as an index has
    it."""
    metadata = "v.fields->'metadata'"
    return Where(f"{metadata} ? '{name}' and {metadata}->>'{name}' = {{}}", key=True)


class RunFilters(Page):
    """A page of runs of these agents."""

    limit: Annotated[int | None, Field(ge=0, le=PAGE_ITEMS_MAX)] = 100
    agent_id: Annotated[Name | None, Where("v.agent_id = {}", key=True)] = None
    agent_ids: Annotated[Names | None, Where("v.agent_id = any({})", key=True)] = None
    background: Annotated[bool | None, Where("v.background", otherwise="not v.background")] = None
    schedule_id: Annotated[Name | None, started_for("schedule_id")] = None
    batch_id: Annotated[Name | None, started_for("batch_id")] = None
    group_id: Annotated[Name | None, started_for("group_id")] = None


class RunPage(RunFilters):
    """A page of runs."""

    order_by: Literal["created_at", "duration"] = "created_at"
    conversation_id: Annotated[Name | None, Where("v.conversation_id = {}", key=True)] = None
    statuses: Annotated[Names | None, any_of('v.status collate "C" = any({})')] = None
    stop_reason: Annotated[Name | None, Where("v.stop_reason = {}", key=True)] = None
    active: Annotated[bool, Where(ACTIVE)] = False


class ActiveRunPage(RunFilters):
    """A page of the runs that have not ended; without a limit the largest."""

    limit: Annotated[int | None, Field(ge=0, le=PAGE_ITEMS_MAX)] = PAGE_ITEMS_MAX


class RunMessagePage(Page):
    """A page of a run's messages."""

    order: Literal["asc", "desc"] = "asc"
    order_by: Literal["created_at"] = "created_at"
    limit: Annotated[int | None, Field(ge=0, le=PAGE_ITEMS_MAX)] = 100


class TraceSize(Query):
    """The number of spans at most."""

    limit: Annotated[int, Field(ge=1, le=SPANS_MAX)] = 1_000


@get("/v1/runs", "runs", query=RunPage)
async def list_runs(request: AnyRequest) -> Response[bytes]:
    """List runs, the newest first."""
    page = query_of(request, RunPage)
    page.conversation_id = conversation_named(page.conversation_id, page.agent_id)
    return await answer_page(request, RUNS, page, key=page.order_by)


def conversation_named(name: str | None, agent_id: str | None) -> str | None:
    """The id of the conversation that a filter names: an agent's own by `default`, with the agent,
    or by the agent's id."""
    if name == "default" and agent_id is not None:
        return main_conversation(agent_id)
    return main_conversation(name) if name and name.startswith("agent-") else name


@get("/v1/runs/active", "runs", query=ActiveRunPage)
async def list_active_runs(request: AnyRequest) -> Response[bytes]:
    """List the runs that have not ended, the newest first."""
    page = query_of(request, ActiveRunPage)
    return await answer_page(request, RUNS, page, filter_of(page, org_of(request)).add(ACTIVE))


@get("/v1/runs/{run_id:str}", "run")
async def retrieve_run(request: AnyRequest, run_id: str) -> Response[bytes]:
    """Retrieve a run by its id."""
    return await answer_document(request, RUNS, run_id)


@get("/v1/runs/{run_id:str}/messages", "messages", query=RunMessagePage)
async def list_messages_of_run(request: AnyRequest, run_id: str) -> Response[bytes]:
    """List the messages of a run: those that were sent, then its answer; only those of the types
    that its request asked for with `include_return_message_types`."""
    page = query_of(request, RunMessagePage)
    types = (await run_row(request, run_id)).message_types or None
    messages, org = api_of(request).messages, org_of(request)
    return raw(await messages.messages_of_run(org, run_id, types, slice_of(page)))


@get("/v1/runs/{run_id:str}/usage", "usage")
async def retrieve_usage(request: AnyRequest, run_id: str) -> Response[bytes]:
    """Retrieve the token usage of a run, with its `cost_usd` where all its steps have a price."""
    used = from_json(await document_of(request, RUNS, run_id, document=RUN_USAGE))
    cost = {} if used["cost_usd"] is None else {"cost_usd": used["cost_usd"]}
    return raw(to_json(run_usage(used["tokens"] or {}) | cost))


@get("/v1/runs/{run_id:str}/steps", "steps", query=StepsOfRunPage)
async def list_steps_of_run(request: AnyRequest, run_id: str) -> Response[bytes]:
    """List the steps of a run, the newest first."""
    page = query_of(request, StepsOfRunPage)
    await run_row(request, run_id)
    found = filter_of(page, org_of(request)).by_key("v.run_id = %(run)s", run=run_id)
    return await answer_page(request, STEPS, page, found)


@get("/v1/runs/{run_id:str}/metrics", "how long the run took, and what it used")
async def retrieve_run_metrics(request: AnyRequest, run_id: str) -> Response[bytes]:
    """Retrieve how long a run took, how many steps it had, and which tools it used."""
    return await answer_document(request, RUNS, run_id, document=RUN_METRICS)


@get("/v1/runs/{run_id:str}/trace", "spans", query=TraceSize)
async def retrieve_run_trace(request: AnyRequest, run_id: str) -> Response[bytes]:
    """Retrieve the spans of a run, its steps and its tool calls, in the order of their starts."""
    size = query_of(request, TraceSize)
    facts = from_json(await document_of(request, RUNS, run_id, document=RUN_TRACE))
    return raw(to_json(spans_of(facts)[: size.limit]))


@delete("/v1/runs/{run_id:str}", "null")
async def delete_run(request: AnyRequest, run_id: str) -> None:
    """Delete a run that has ended, with its steps. Its messages stay."""
    place = "json_build_object('agent_id', v.agent_id, 'conversation_id', v.conversation_id)"
    known = from_json(await document_of(request, RUNS, run_id, document=place))
    await api_of(request).send(request, DeleteRun(run_id=run_id, **known))


@post("/v1/runs/{run_id:str}/stream", "events", body=bodies.RetrieveStreamRequest, streams=True)
async def resume_stream(request: AnyRequest, run_id: str) -> Stream:
    """Go on reading the stream of a background run: after `starting_after` or `Last-Event-ID`,
    or from its beginning."""
    asked = parse(await request.body() or b"{}", bodies.RetrieveStreamRequest)
    return await stream_of_run(request, run_id, asked)


async def stream_of_run(
    request: AnyRequest, run_id: str, asked: bodies.RetrieveStreamRequest
) -> Stream:
    """The rest of the stream of a background run. Raises the 400 or the 404 that says there is
    none."""
    api = api_of(request)
    row = await run_row(request, run_id)
    if not row.background:
        detail = (
            "Only a run that was started with `background` can be resumed; "
            "list the agent's messages to see the answer of this one"
        )
        raise Problem(400, {"detail": detail})
    seen, pings = last_event(request) or asked.starting_after, bool(asked.include_pings)
    follower = RunFollower(api.runs, api.bus, org_of(request), run_id, last_sent=seen)
    await follower.__aenter__()
    types = row.message_types or None
    showing = Showing(numbered=True, pings=pings, look_first=True, types=types)
    return events_of(request, follower, showing)


async def run_row(request: AnyRequest, run_id: str) -> RunRow:
    """Where a run stands; raises the 404 that names it."""
    row = await api_of(request).runs.run_end(org_of(request), valid_id("run", run_id))
    if row is None:
        raise missing("run", run_id)
    return row
