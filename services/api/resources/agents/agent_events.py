"""Events of an agent: those of all services in one order. None of it is in V1."""

from __future__ import annotations

from typing import Annotated, Literal

from litestar import Response
from pydantic import Field

from libs.contracts.letta.message_requests import Moment
from libs.contracts.letta.request_size_limits import Name
from services.api.adapters.agents.agent_event_queries import AgentEventQueries
from services.api.adapters.agents.agent_event_statement import SERVICES, EventFilter, topics_of
from services.api.adapters.resource_query_builder import Slice
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import AnyRequest, Page, query_of, valid_id
from services.api.openapi.operation import get
from services.api.v1.agent_event_documents import events_document
from services.api.v1.read_model_responses import missing

EVENTS_MAX = 500
TOPICS_MAX = 8


class EventPage(Page):
    """A page of the events of an agent; the cursors are ids of events."""

    limit: Annotated[int, Field(ge=0, le=EVENTS_MAX)] = 100
    topic: Annotated[list[Name] | None, Field(max_length=TOPICS_MAX)] = None
    service: Literal["agent", "memory", "tools", "scheduler", "groups", "api"] | None = None
    run_id: Name | None = None
    tool_call_id: Name | None = None
    since: Moment | None = None
    until: Moment | None = None
    include: Annotated[list[Literal["payload"]], Field(default_factory=list, max_length=1)]


@get("/v1/agents/{agent_id:str}/events", "events", query=EventPage)
async def list_agent_events(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """List what happened to an agent and to what it has, the newest first: the events of all
    services in the order of their commits."""
    page = query_of(request, EventPage)
    topics = page.topic or []
    refuse_unknown_topics(topics)
    await must_have_existed(request, agent_id)
    wanted = EventFilter(
        org_of(request),
        agent_id,
        topics,
        page.service,
        page.run_id,
        page.tool_call_id,
        page.since,
        page.until,
    )
    payloads = "payload" in page.include
    events = await AgentEventQueries(api_of(request).reads.database).events(
        wanted, Slice(page.before, page.after, page.limit, page.order), payloads=payloads
    )
    return raw(events_document(events, payloads=payloads))


async def must_have_existed(request: AnyRequest, agent_id: str) -> None:
    """Raise the 404 that names an agent that never was: what happened to a deleted one is shown, as
    far as it is not erased."""
    queries = AgentEventQueries(api_of(request).reads.database)
    if not await queries.was_created(org_of(request), valid_id("agent", agent_id)):
        raise missing("agent", agent_id)


def refuse_unknown_topics(topics: list[str]) -> None:
    """Raise the 422 that names a topic which no event has."""
    for topic in topics:
        if not any(topic in topics_of(service) for service in SERVICES):
            detail = (
                f"`topic`: no event of {', '.join(SERVICES)} has the topic '{topic}': use one such"
                " as message.appended, run.completed, block.changed"
            )
            raise Problem(422, {"detail": detail})
