"""Topics, and the agents that subscribe to them. V1 has none."""

from __future__ import annotations

from litestar import Response
from pydantic import BaseModel

from libs.contracts.bus_messages import JsonObject
from libs.contracts.groups.topics import SubscribeAgent, UnsubscribeAgent, topic_id
from libs.contracts.letta.capabilities import CapabilityName
from services.api.adapters.resource_query_builder import ALL_OF_ORG, Filter, Resource
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import AnyRequest, valid_id, valid_name
from services.api.openapi.operation import delete, get, put

SUBSCRIBERS = "/v1/topics/{topic:str}/subscribers"
SUBSCRIBER = f"{SUBSCRIBERS}/{{agent_id:str}}"
# Of an agent that was deleted nothing is shown, also before its subscriptions are removed.
IS_THERE = (
    "exists (select from agent.agent_view a where a.id = v.agent_id and a.org = v.org offset 0)"
)
SUBSCRIPTIONS = Resource(
    kind="subscription",
    view="groups.subscriber_view",
    document=(
        "jsonb_build_object('topic', v.topic, 'agent_id', v.agent_id, 'created_at', v.created_at)"
    ),
)
TOPICS_SHOWN_MAX = 1_000
TOPICS = f"""
select coalesce(json_agg(json_build_object('name', page.topic, 'subscribers', page.agents)
                         order by page.topic collate "C"), '[]')::text
from (select v.topic, count(*) as agents from groups.subscriber_view v
      where v.org = %(org)s and {IS_THERE}
      group by v.topic order by v.topic collate "C" limit %(limit)s) page"""


class NamedTopic(BaseModel):
    """The name of a topic in a path."""

    topic: CapabilityName


@get("/v1/topics", "topics")
async def list_topics(request: AnyRequest) -> Response[bytes]:
    """List the topics that agents subscribe to, with their number, by name."""
    database = api_of(request).reads.database
    values = {"org": org_of(request), "limit": TOPICS_SHOWN_MAX}
    return raw(await database.fetch_text(TOPICS, values) or b"[]")


@get(SUBSCRIBERS, "subscribers")
async def list_subscribers(request: AnyRequest, topic: str) -> Response[bytes]:
    """List the agents that subscribe to a topic, the first that did so first."""
    found = Filter([ALL_OF_ORG, IS_THERE], {"org": org_of(request)})
    found.by_key("v.topic = %(topic)s", topic=valid_name(NamedTopic, "topic", topic))
    order = 'v.created_at, v.id collate "C"'
    shown = await api_of(request).reads.all(SUBSCRIPTIONS, found, order=order)
    if shown == b"[]":
        raise Problem(404, {"detail": f"No agent subscribes to the topic '{topic}'"})
    return raw(shown)


@put(SUBSCRIBER, "subscription")
async def subscribe(request: AnyRequest, topic: str, agent_id: str) -> JsonObject:
    """Have an agent get what is published on a topic. Safe to repeat."""
    name = valid_name(NamedTopic, "topic", topic)
    command = SubscribeAgent(
        topic_id=topic_id(org_of(request), name), name=name, agent_id=valid_id("agent", agent_id)
    )
    await api_of(request).send(request, command)
    return {"topic": name, "agent_id": agent_id}


@delete(SUBSCRIBER, "message")
async def unsubscribe(request: AnyRequest, topic: str, agent_id: str) -> JsonObject:
    """Have an agent get nothing more of what is published on a topic."""
    command = UnsubscribeAgent(
        topic_id=topic_id(org_of(request), topic), name=topic, agent_id=valid_id("agent", agent_id)
    )
    await api_of(request).send(request, command)
    return {"message": f"Agent {agent_id} does not subscribe to '{topic}' any more"}
