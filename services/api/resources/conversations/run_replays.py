"""Replays of runs: a run again on the context as it was, beside what was recorded."""

from __future__ import annotations

from typing import Annotated, Literal

from litestar import Response
from pydantic import Field

from services.api.adapters.conversations.step_sql_expressions import cost
from services.api.adapters.resource_query_builder import Filter, Resource, filter_of
from services.api.http.callers import org_of
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import (
    PAGE_ITEMS_MAX,
    AnyRequest,
    Page,
    parse,
    query_of,
    valid_id,
)
from services.api.openapi.operation import get, post
from services.api.resources.conversations.runs import RUNS
from services.api.v1.read_model_responses import answer_page, missing, must_exist
from services.api.v1.replay_request import ReplayRequest, replay

FIELDS = (
    *("id", "run_id", "agent_id", "conversation_id", "mode", "model", "from_step", "status"),
    *("created_at", "completed_at", "same", "first_difference", "recorded", "replayed", "notes"),
)
STEPS_OF_REPLAY = "from agent.run_replay_step_view s where s.replay_id = v.id and s.org = v.org"


def step_cost(side: str) -> str:
    """The cost of one side's step, as a query of `dollars`."""
    row = (
        f"(select 'model.replied' as topic, s.{side} as payload, s.{side}->>'model' as model,"
        f" (s.{side}->>'at')::timestamptz as created_at) r"
    )
    return f"(select c.dollars from {row} cross join lateral {cost('r')} c)"


def whole_cost(side: str) -> str:
    """The cost of all steps of one side; null as soon as that of one is not known."""
    costs = f"select {step_cost(side)} as dollars {STEPS_OF_REPLAY} and s.{side} is not null"
    return (
        "(select case when count(*) = count(each.dollars) then sum(each.dollars) end"
        f" from ({costs}) each)"
    )


COSTS = (
    f"'cost_usd', json_build_object('recorded', {whole_cost('recorded')},"
    f" 'replayed', {whole_cost('replayed')})"
)
SUMMARY = ", ".join(f"'{name}', v.fields->'{name}'" for name in FIELDS)
STEP = (
    "json_build_object('number', s.number, 'recorded', s.recorded, 'replayed', s.replayed,"
    " 'answers', s.answers, 'differences', s.differences, 'cost_usd', json_build_object("
    f"'recorded', {step_cost('recorded')}, 'replayed', {step_cost('replayed')}))"
)
REPLAYS = Resource(
    kind="replay",
    view="agent.run_replay_view",
    document=f"json_build_object({SUMMARY}, 'error', v.error, {COSTS})",
)
REPORT = (
    f"json_build_object({SUMMARY}, 'error', v.error, {COSTS}, 'steps',"
    f" (select coalesce(json_agg({STEP} order by s.number), '[]') {STEPS_OF_REPLAY}))"
)


class ReplayPage(Page):
    """A page of the replays of a run."""

    limit: Annotated[int | None, Field(ge=0, le=PAGE_ITEMS_MAX)] = 50
    order_by: Literal["created_at"] = "created_at"


@post("/v1/runs/{run_id:str}/replay", "replay of a run", body=ReplayRequest)
async def replay_run(request: AnyRequest, run_id: str) -> Response[bytes]:
    """Ask a model once more what it was asked in a run that has ended, on the context as it was,
    and compare what comes of it with what was recorded. Nothing changes in the agent."""
    asked = parse(await request.body() or b"{}", ReplayRequest)
    replay_id = await replay(request, valid_id("run", run_id), asked)
    return raw(await report_of(request, run_id, replay_id), 202 if asked.background else 200)


@get("/v1/runs/{run_id:str}/replays", "replays of a run", query=ReplayPage)
async def list_replays(request: AnyRequest, run_id: str) -> Response[bytes]:
    """List the replays of a run, the newest first, without their steps."""
    page = query_of(request, ReplayPage)
    await must_exist(request, RUNS, run_id)
    found = filter_of(page, org_of(request)).by_key("v.run_id = %(run)s", run=run_id)
    return await answer_page(request, REPLAYS, page, found)


@get("/v1/runs/{run_id:str}/replays/{replay_id:str}", "replay of a run")
async def retrieve_replay(request: AnyRequest, run_id: str, replay_id: str) -> Response[bytes]:
    """Retrieve a replay with both transcripts, step by step."""
    await must_exist(request, RUNS, run_id)
    return raw(await report_of(request, run_id, replay_id))


async def report_of(request: AnyRequest, run_id: str, replay_id: str) -> bytes:
    """The report of a replay of this run; raises the 404 that names it."""
    found = Filter(
        ["v.org = %(org)s", "v.id = %(id)s", "v.run_id = %(run)s"],
        {"org": org_of(request), "id": valid_id("replay", replay_id), "run": run_id},
    )
    report = await api_of(request).reads.first(REPLAYS, found, document=REPORT)
    if report is None:
        raise missing("replay", replay_id)
    return report
