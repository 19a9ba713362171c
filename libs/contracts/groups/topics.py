"""The language of the groups service: topics, and the agents that subscribe to them."""

from __future__ import annotations

from libs.contracts.bus_messages import Command, Event
from libs.contracts.deterministic_ids import derived_id

SERVICE = "groups"
SUBSCRIBERS_MAX = 100


def topic_id(org: str, name: str) -> str:
    """The id of the topic of this name in an organisation."""
    return derived_id("topic", org, name)


class SubscribeAgent(Command, service=SERVICE, topic="topic.subscribe"):
    """Have an agent get what is published on a topic."""

    topic_id: str
    name: str
    agent_id: str

    @property
    def target(self) -> str:
        return self.topic_id


class UnsubscribeAgent(Command, service=SERVICE, topic="topic.unsubscribe"):
    """Have an agent get nothing more of what is published on a topic."""

    topic_id: str
    name: str
    agent_id: str

    @property
    def target(self) -> str:
        return self.topic_id


class AgentSubscribed(Event, service=SERVICE, topic="agent.subscribed"):
    """An agent gets what is published on a topic."""

    name: str
    agent_id: str


class AgentUnsubscribed(Event, service=SERVICE, topic="agent.unsubscribed"):
    """An agent gets nothing more of what is published on a topic."""

    name: str
    agent_id: str
