"""Fleets: agents that files describe together. A plan says what is to change and is kept; it is
applied as it is, or refused where something has changed since. None of it is in V1."""

from __future__ import annotations

from typing import Annotated, Literal

from litestar import Response
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import from_json, to_json

from libs.agent_document.plan_parts import Wanted
from libs.contracts.api.fleets import CreateFleet, DeleteFleet, StartFleetApply, fleet_id_of
from libs.contracts.letta.request_size_limits import Name
from services.api.adapters.resource_query_builder import Resource, filter_of
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import AnyRequest, Page, body_of, query_of, valid_id
from services.api.openapi.operation import delete, get, post
from services.api.resources.agents.agents import AGENTS
from services.api.resources.agents.fleet_forms import check_forms
from services.api.v1.fleet_plans import kept_plan, plan_or_problem, planner_of
from services.api.v1.read_model_responses import (
    answer_document,
    answer_page,
    document_of,
    missing,
    must_exist,
)

PLAN_BYTES_MAX = 16 << 20
FLEET = "/v1/fleets/{fleet_id:str}"
OF_FLEET, OF_APPLY = "v.fleet_id = %(fleet)s", "v.apply_id = %(apply)s"
RUNNING = (
    "(select json_build_object('id', a.id, 'by', a.by, 'since', a.created_at, 'units', a.units,"
    " 'done', (select count(*) from api.fleet_unit_view u where u.apply_id = a.id"
    " and u.org = a.org)) from api.fleet_apply_view a where a.id = v.applying and a.org = v.org)"
)
FLEETS = Resource(
    kind="fleet",
    view="api.fleet_view",
    document=(
        "json_build_object('id', v.id, 'key', v.key, 'name', v.name, 'origin', v.origin,"
        f" 'created_at', v.created_at, 'applying', {RUNNING})"
    ),
    created_view="api.created_fleet_view",
)
APPLIES = Resource(
    kind="apply",
    view="api.fleet_apply_view",
    document=(
        "json_build_object('id', v.id, 'fleet_id', v.fleet_id, 'plan_id', v.plan_id, 'by', v.by,"
        " 'undoes', v.undoes, 'status', v.status, 'reason', nullif(v.reason, ''), 'counts',"
        " v.counts, 'units', v.units, 'created_at', v.created_at, 'completed_at', v.completed_at)"
    ),
)
UNITS = Resource(
    kind="unit", view="api.fleet_unit_view", document="v.fields", sort_keys={"number": "v.number"}
)
MEMBERS = Resource(
    kind="member",
    view="api.fleet_member_view",
    document=(
        "json_build_object('member_id', v.id, 'kind', v.kind, 'key', v.key, 'id', v.thing_id,"
        " 'name', v.name, 'applied_at', v.applied_at, 'applied', v.applied)"
    ),
    sort_keys={"id": 'v.id collate "C"'},
)
OWNER_OF = """
select json_build_object('fleet_id', f.id, 'fleet', f.name, 'key', m.key, 'applied_at',
       m.applied_at, 'shared_blocks', array(
           select s.thing_id from api.fleet_members s join agent.agent_view a
           on s.thing_id = any(a.block_ids) where a.id = %(agent)s and s.kind = 'shared_block'
           and s.org = %(org)s))::text
from (select 1) one left join api.fleet_members m on m.thing_id = %(agent)s and m.org = %(org)s
left join api.fleets f on f.id = m.fleet_id"""


class NewFleet(BaseModel):
    """A fleet: the key that its files have for it, what it is called, and where they are."""

    model_config = ConfigDict(extra="forbid")

    key: Name
    name: Name
    origin: Annotated[str, Field(max_length=1_000)] = ""


class FleetPlanRequest(Wanted):
    """The source of a plan: what files want, or the id of an apply that is taken back."""

    undo: Name | None = None


class PlanToApply(BaseModel):
    """The plan that is applied, and who wants it, in words."""

    model_config = ConfigDict(extra="forbid")

    plan_id: Name
    by: Annotated[str, Field(max_length=200)] = "somebody"


class FleetPage(Page):
    """A page of fleets, or of applies of one, the newest first."""

    order_by: Literal["created_at"] = "created_at"


class MemberPage(Page):
    """A page of what a fleet owns; cursors are each one's `member_id`."""

    order_by: Literal["id"] = "id"


class UnitPage(Page):
    """A page of what an apply did; `after` is the id of the apply, a point, and a number."""

    order: Literal["asc", "desc"] = "asc"
    order_by: Literal["number"] = "number"


@post("/v1/fleets", "fleet", body=NewFleet)
async def create_fleet(request: AnyRequest) -> Response[bytes]:
    """Make a fleet, or get the one that there is for the key."""
    body = await body_of(request, NewFleet)
    fleet_id = fleet_id_of(org_of(request), body.key)
    command = CreateFleet(fleet_id=fleet_id, **body.model_dump())
    api = api_of(request)
    await api.send(request, command, message_id=api.ids.new("cmd"), keyed=False)
    return await answer_document(request, FLEETS, fleet_id)


@get("/v1/fleets", "fleets", query=FleetPage)
async def list_fleets(request: AnyRequest) -> Response[bytes]:
    """List the fleets of the organisation."""
    page = query_of(request, FleetPage)
    return await answer_page(request, FLEETS, page, filter_of(page, org_of(request)))


@get(FLEET, "fleet")
async def retrieve_fleet(request: AnyRequest, fleet_id: str) -> Response[bytes]:
    """Retrieve a fleet, with the apply that is under way."""
    return await answer_document(request, FLEETS, fleet_id)


@delete(FLEET, "message")
async def delete_fleet(request: AnyRequest, fleet_id: str) -> Response[bytes]:
    """Forget a fleet and what was applied of it. Its agents stay, and are nobody's."""
    await api_of(request).send(request, DeleteFleet(fleet_id=valid_id("fleet", fleet_id)))
    return raw(to_json({"message": f"Fleet {fleet_id} is forgotten; its agents stay"}))


@get(f"{FLEET}/members", "members of a fleet", query=MemberPage)
async def list_fleet_members(request: AnyRequest, fleet_id: str) -> Response[bytes]:
    """List what a fleet owns: agents, and the tools, MCP servers, blocks and groups they use."""
    await must_exist(request, FLEETS, fleet_id)
    page = query_of(request, MemberPage)
    found = filter_of(page, org_of(request)).by_key(OF_FLEET, fleet=fleet_id)
    return await answer_page(request, MEMBERS, page, found, key="id")


@post(
    f"{FLEET}/plans",
    "plan of a fleet",
    body=FleetPlanRequest,
    status_code=201,
    request_max_body_size=PLAN_BYTES_MAX,
)
async def plan_fleet_changes(request: AnyRequest, fleet_id: str) -> Response[bytes]:
    """Plan what makes the server as files want it, or takes an apply back. Nothing changes; the
    plan is kept for a day."""
    body = await body_of(request, FleetPlanRequest)
    for agent in body.agents:
        check_forms(agent)
    planner, plan_id = await planner_of(request, FLEETS, fleet_id), api_of(request).ids.new("plan")
    if body.undo is not None:
        return raw(await kept_plan(request, planner.undo(plan_id, body.undo)), 201)
    return raw(await kept_plan(request, planner.plan(plan_id, body)), 201)


@get(f"{FLEET}/plans/{{plan_id:str}}", "plan of a fleet")
async def retrieve_fleet_plan(request: AnyRequest, fleet_id: str, plan_id: str) -> Response[bytes]:
    """Retrieve a plan as it was made."""
    await must_exist(request, FLEETS, fleet_id)
    shown = await api_of(request).fleets.shown_plan(org_of(request), valid_id("plan", plan_id))
    if shown is None or from_json(shown)["fleet_id"] != fleet_id:
        raise missing("plan", plan_id)
    return raw(shown.encode())


@post(f"{FLEET}/applies", "apply of a fleet", body=PlanToApply, status_code=202)
async def apply_fleet_plan(request: AnyRequest, fleet_id: str) -> Response[bytes]:
    """Begin to apply a plan. Refused while another one is applied, and where what it is about has
    changed since it was made."""
    body = await body_of(request, PlanToApply)
    api, org = api_of(request), org_of(request)
    apply_id = api.new_id(request, "apply", fleet_id)
    if not await api.reads.exists(APPLIES, org, apply_id):
        newest = await api.fleets.newest_apply(org, fleet_id)
        planner = await planner_of(request, FLEETS, fleet_id)
        stored = await plan_or_problem(planner.to_apply(valid_id("plan", body.plan_id)))
        members = await api.fleets.members(org, fleet_id)
        command = StartFleetApply(
            fleet_id=fleet_id,
            apply_id=apply_id,
            plan_id=stored.id,
            by=body.by,
            undoes=stored.undoes,
            members=len(members) + len(stored.plan.units),
            units=len(stored.plan.units),
            after=newest,
        )
        await api.fleets.keep_longer(org, stored.id)
        await api.send(request, command, message_id=f"start-{apply_id}")
        await api.fleets.keep_longer(org, stored.id, started=stored)
    answer = await document_of(request, APPLIES, apply_id)
    if from_json(answer)["plan_id"] != body.plan_id:
        detail = "The Idempotency-Key came before with another plan: send this one with its own"
        raise Problem(409, {"detail": detail}, {"x-should-retry": "false"})
    return raw(answer, 202)


@get(f"{FLEET}/applies", "applies of a fleet", query=FleetPage)
async def list_fleet_applies(request: AnyRequest, fleet_id: str) -> Response[bytes]:
    """List what was applied of a fleet, by whom and when."""
    await must_exist(request, FLEETS, fleet_id)
    page = query_of(request, FleetPage)
    found = filter_of(page, org_of(request)).by_key(OF_FLEET, fleet=fleet_id)
    return await answer_page(request, APPLIES, page, found)


@get(f"{FLEET}/applies/{{apply_id:str}}", "apply of a fleet")
async def retrieve_fleet_apply(
    request: AnyRequest, fleet_id: str, apply_id: str
) -> Response[bytes]:
    """Retrieve an apply: how far it is, or how it ended."""
    document = await document_of(request, APPLIES, apply_id)
    if from_json(document)["fleet_id"] != fleet_id:
        raise missing("apply", apply_id)
    return raw(document)


@get(f"{FLEET}/applies/{{apply_id:str}}/units", "units of an apply", query=UnitPage)
async def list_fleet_units(request: AnyRequest, fleet_id: str, apply_id: str) -> Response[bytes]:
    """List what came of each thing that an apply was about, in the order in which it was done."""
    await retrieve_fleet_apply.fn(request, fleet_id, apply_id)
    page = query_of(request, UnitPage)
    found = filter_of(page, org_of(request)).by_key(OF_APPLY, apply=apply_id)
    return await answer_page(request, UNITS, page, found, key="number")


@get("/v1/agents/{agent_id:str}/fleet", "fleet of an agent")
async def retrieve_fleet_of_agent(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """Retrieve which fleet owns the agent, and which of its blocks a fleet shares."""
    await must_exist(request, AGENTS, agent_id)
    values = {"agent": agent_id, "org": org_of(request)}
    row = await api_of(request).reads.database.fetch_one(OWNER_OF, values)
    if row is None:
        raise Problem(404, {"detail": f"Agent {agent_id} is gone"})
    return raw(row[0].encode())
