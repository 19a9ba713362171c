"""Schedules of agents: in the form of V1's SDK and, with the same routes, in one that has more."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from litestar import Response
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import from_json

from libs.contracts.bus_messages import Command, Json, JsonObject
from libs.contracts.letta import all_request_bodies as bodies
from libs.contracts.letta.error_bodies import check_id
from libs.contracts.letta.request_size_limits import Name
from libs.contracts.scheduler.firings import FiringStatus
from libs.contracts.scheduler.schedule_config import ScheduleConfig
from libs.contracts.scheduler.schedules import (
    NEXT_SLOTS_DEFAULT,
    NEXT_SLOTS_MAX,
    CreateSchedule,
    DeleteSchedule,
    FireSchedule,
    ListNextSlots,
    PauseSchedule,
    ResumeSchedule,
    UpdateSchedule,
)
from services.api.adapters.resource_query_builder import (
    ORG_CHECKED,
    Filter,
    Resource,
    Slice,
    Where,
    filter_of,
)
from services.api.adapters.schedules.schedule_documents import CONFIG, FIRING, SCHEDULE
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import (
    PAGE_ITEMS_MAX,
    AnyRequest,
    Page,
    Query,
    body_of,
    parse,
    query_of,
    valid_id,
)
from services.api.openapi.operation import delete, get, patch, post
from services.api.resources.agents.agents import AGENTS
from services.api.v1.read_model_responses import (
    answer_document,
    answer_page,
    document_of,
    missing,
    must_exist,
)
from services.api.v1.schedule_request import changes_of, config_of, with_client_names

SCHEDULES = Resource(
    kind="schedule",
    view="scheduler.schedule_view",
    document=SCHEDULE,
    created_view="scheduler.created_schedule_view",
)
FIRINGS = Resource(
    kind="firing",
    view="scheduler.firing_view",
    document=FIRING,
    created_view="scheduler.created_firing_view",
)
OF_AGENT = "/v1/agents/{agent_id:str}/schedule"
ONE = f"{OF_AGENT}/{{scheduled_message_id:str}}"
BY_AGENT = "v.agent_id = %(agent)s"

Status = Literal["active", "paused", "completed"]


class SchedulesOfAgentPage(Query):
    """A page of an agent's schedules, the newest first."""

    after: Name | None = None
    limit: Annotated[int, Field(ge=1, le=PAGE_ITEMS_MAX)] = 100


class SchedulePage(Page):
    """A page of the schedules of all agents."""

    order_by: Literal["created_at"] = "created_at"
    agent_id: Annotated[Name | None, Where("v.agent_id = {}", key=True)] = None
    status: Annotated[Status | None, Where("v.status = {}", key=True)] = None
    name: Annotated[Name | None, Where("v.fields->>'name' = {}", key=True)] = None
    has_error: Annotated[
        bool | None,
        Where("v.fields->>'last_error' is not null", otherwise="v.fields->>'last_error' is null"),
    ] = None


class FiringPage(Page):
    """A page of the firings of a schedule."""

    order_by: Literal["created_at"] = "created_at"
    status: Annotated[FiringStatus | None, Where("v.status = {}")] = None


class HistoryPage(Query):
    """A part of the history of a schedule, as Letta Code asks for it."""

    limit: Annotated[int, Field(ge=1, le=PAGE_ITEMS_MAX)] = 50
    offset: Annotated[int, Field(ge=0, le=PAGE_ITEMS_MAX)] = 0


class NextTimes(Query):
    """The number of times to show."""

    count: Annotated[int, Field(ge=1, le=NEXT_SLOTS_MAX)] = NEXT_SLOTS_DEFAULT


class FiringWanted(BaseModel):
    """Which firing to repeat; without one, a new one."""

    model_config = ConfigDict(extra="forbid")

    firing_id: Name = ""


@post(OF_AGENT, "schedule", body=bodies.ScheduleCreate, status_code=201)
async def create_schedule(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """Schedule a message to an agent, or something else that it is to do, once or repeatedly."""
    valid_id("agent", agent_id)
    body = await body_of(request, bodies.ScheduleCreate)
    api = api_of(request)
    schedule_id = api.new_id(request, "schedule", agent_id)
    config = config_of(body, schedule_id, agent_id, api.clock.now())
    try:
        command = CreateSchedule(schedule=config)
        await api.send(request, command, message_id=f"create-{schedule_id}")
    except Problem as problem:
        raise with_client_names(problem, is_v1=body.is_v1) from None
    created = await document_of(request, SCHEDULES, schedule_id)
    return raw(created, status_code=201)


@get(OF_AGENT, "schedules of an agent", query=SchedulesOfAgentPage)
async def list_schedules_of_agent(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """List the schedules of an agent, the newest first."""
    asked = query_of(request, SchedulesOfAgentPage)
    await must_exist(request, AGENTS, agent_id)
    found = filter_of(asked, org_of(request)).by_key(BY_AGENT, agent=agent_id)
    page = Page(after=asked.after, limit=asked.limit)
    return await page_with_more(request, page, found)


async def page_with_more(request: AnyRequest, page: Page, found: Filter) -> Response[bytes]:
    """A page as V1 has it, which says whether more follows."""
    api, limit = api_of(request), page.limit or 1
    part = Slice(page.before, page.after, limit + 1, page.order)
    ids = from_json(await api.reads.page(SCHEDULES, found, part, document="to_json(v.id)"))
    shown = Filter([ORG_CHECKED], {"org": org_of(request)})
    shown.by_key("v.id = any(%(ids)s)", ids=ids[:limit])
    documents = await api.reads.page(SCHEDULES, shown, Slice(limit=limit, order=page.order))
    more = b"true" if len(ids) > limit else b"false"
    return raw(b'{"has_next_page": %b, "scheduled_messages": %b}' % (more, documents))


@get("/v1/schedules", "schedules", query=SchedulePage)
async def list_schedules(request: AnyRequest) -> Response[bytes]:
    """List the schedules of all agents, the newest first."""
    return await answer_page(request, SCHEDULES, query_of(request, SchedulePage))


@get(ONE, "schedule")
async def retrieve_schedule(
    request: AnyRequest, agent_id: str, scheduled_message_id: str
) -> Response[bytes]:
    """Retrieve a schedule by its id."""
    return raw(await document_of_agent(request, agent_id, scheduled_message_id))


async def document_of_agent(
    request: AnyRequest, agent_id: str, schedule_id: str, document: str = ""
) -> bytes:
    """The document of a schedule, or another expression on it. Raises the 404 of one that is not
    there, or is another agent's."""
    valid_id("agent", agent_id)
    values = {"org": org_of(request), "id": valid_schedule_id(schedule_id), "agent": agent_id}
    found = Filter([ORG_CHECKED, "v.id = %(id)s", BY_AGENT], values)
    body = await api_of(request).reads.first(SCHEDULES, found, document=document)
    if body is None:
        raise missing("schedule", schedule_id)
    return body


def valid_schedule_id(schedule_id: str) -> str:
    """The id of a schedule. Raises the 422 of what is none."""
    problem = check_id("schedule", schedule_id, "scheduled_message_id")
    if problem:
        raise Problem(422, problem)
    return schedule_id


async def change(request: AnyRequest, agent_id: str, schedule_id: str, command: Command) -> None:
    """Send a command about a schedule of an agent. Raises the 404 of one that is not there."""
    await document_of_agent(request, agent_id, schedule_id, "to_json(v.id)")
    await api_of(request).send(request, command)


@patch(ONE, "schedule", body=bodies.ScheduleUpdate)
async def modify_schedule(
    request: AnyRequest, agent_id: str, scheduled_message_id: str
) -> Response[bytes]:
    """Change the given fields of a schedule; what it has fired or skipped does not come again."""
    body = await body_of(request, bodies.ScheduleUpdate)
    config = await document_of_agent(request, agent_id, scheduled_message_id, CONFIG)
    changes = changes_of(body, ScheduleConfig.model_validate_json(config))
    try:
        command = UpdateSchedule(schedule_id=scheduled_message_id, changes=changes)
        await api_of(request).send(request, command)
    except Problem as problem:
        raise with_client_names(problem, is_v1=False) from None
    return await answer_document(request, SCHEDULES, scheduled_message_id)


@delete(ONE, "success")
async def delete_schedule(
    request: AnyRequest, agent_id: str, scheduled_message_id: str
) -> JsonObject:
    """Delete a schedule with the history of its firings; runs that it has started go on."""
    command = DeleteSchedule(schedule_id=valid_schedule_id(scheduled_message_id))
    await change(request, agent_id, scheduled_message_id, command)
    return {"success": True}


@post(f"{ONE}/pause", "schedule")
async def pause_schedule(
    request: AnyRequest, agent_id: str, scheduled_message_id: str
) -> Response[bytes]:
    """Fire no slot of a schedule until it is resumed. Safe to repeat."""
    command = PauseSchedule(schedule_id=valid_schedule_id(scheduled_message_id))
    await change(request, agent_id, scheduled_message_id, command)
    return await answer_document(request, SCHEDULES, scheduled_message_id)


@post(f"{ONE}/resume", "schedule")
async def resume_schedule(
    request: AnyRequest, agent_id: str, scheduled_message_id: str
) -> Response[bytes]:
    """Fire slots of a schedule again, from now on. Safe to repeat."""
    command = ResumeSchedule(schedule_id=valid_schedule_id(scheduled_message_id))
    await change(request, agent_id, scheduled_message_id, command)
    return await answer_document(request, SCHEDULES, scheduled_message_id)


@post(f"{ONE}/fire", "firing", body=FiringWanted)
async def fire_schedule(
    request: AnyRequest, agent_id: str, scheduled_message_id: str
) -> Response[bytes]:
    """Fire a schedule now, besides its slots; or, with `firing_id`, repeat a firing that has become
    a dead letter."""
    valid_schedule_id(scheduled_message_id)
    wanted = parse(await request.body() or b"{}", FiringWanted)
    command = FireSchedule(schedule_id=scheduled_message_id, firing_id=wanted.firing_id)
    await document_of_agent(request, agent_id, scheduled_message_id, "to_json(v.id)")
    reply = await api_of(request).send(request, command)
    firing_id = str(reply.result["firing_id"])
    return await answer_document(request, FIRINGS, firing_id)


@get(f"{ONE}/next", "next times of a schedule", query=NextTimes)
async def list_next_times(
    request: AnyRequest, agent_id: str, scheduled_message_id: str
) -> JsonObject:
    """List the next times at which a schedule is due, in UTC and in its own time zone."""
    asked = query_of(request, NextTimes)
    config = await document_of_agent(request, agent_id, scheduled_message_id, CONFIG)
    timezone = ScheduleConfig.model_validate_json(config).timezone
    command = ListNextSlots(schedule_id=scheduled_message_id, count=asked.count)
    reply = await api_of(request).send(request, command, keyed=False)
    texts = reply.result["times"]
    assert isinstance(texts, list), "the scheduler answers with a list"
    times = [datetime.fromisoformat(str(text)) for text in texts]
    shown: list[Json] = [
        {"time": time.isoformat(), "local_time": time.astimezone(ZoneInfo(timezone)).isoformat()}
        for time in times
    ]
    return {"schedule_id": scheduled_message_id, "timezone": timezone, "times": shown}


@get(f"{ONE}/firings", "firings", query=FiringPage)
async def list_firings(
    request: AnyRequest, agent_id: str, scheduled_message_id: str
) -> Response[bytes]:
    """List the firings of a schedule, the newest first: the run of each, and how it ended."""
    page = query_of(request, FiringPage)
    await document_of_agent(request, agent_id, scheduled_message_id, "to_json(v.id)")
    found = filter_of(page, org_of(request))
    found.by_key("v.schedule_id = %(schedule)s", schedule=scheduled_message_id)
    return await answer_page(request, FIRINGS, page, found)


@get(f"{ONE}/history", "history of a schedule", query=HistoryPage)
async def list_history(request: AnyRequest, agent_id: str, scheduled_message_id: str) -> JsonObject:
    """List the firings of a schedule, the newest first, as Letta Code reads them."""
    asked = query_of(request, HistoryPage)
    await document_of_agent(request, agent_id, scheduled_message_id, "to_json(v.id)")
    found = filter_of(Query(), org_of(request))
    found.by_key("v.schedule_id = %(schedule)s", schedule=scheduled_message_id)
    end = asked.offset + asked.limit
    firings = from_json(await api_of(request).reads.page(FIRINGS, found, Slice(limit=end + 1)))
    return {"history": firings[asked.offset : end], "has_next_page": len(firings) > end}
