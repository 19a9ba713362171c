"""One example of each message about routed messages, capabilities and topics."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from libs.contracts.agent.agents import DeclareCapability, WithdrawCapability
from libs.contracts.agent.conversations import Message
from libs.contracts.agent.runs import CallingRun
from libs.contracts.bus_messages import UNAVAILABLE, Command, Event
from libs.contracts.groups.routing import (
    AwardRule,
    DeliveryFailed,
    MessageDelivered,
    MessageRouted,
    Recipients,
    RoutedMessageAccepted,
    RoutedMessageCompleted,
    RoutedMessageFailed,
    RoutedRequest,
    RouteMessage,
)
from libs.contracts.groups.topics import (
    AgentSubscribed,
    AgentUnsubscribed,
    SubscribeAgent,
    UnsubscribeAgent,
    topic_id,
)
from libs.contracts.letta.capabilities import Capability

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
AGENT = "agent-11111111-1111-4111-8111-111111111111"
OTHER = "agent-16161616-1616-4616-8616-161616161616"
ROUTED = "routed_message-17171717-1717-4717-8717-171717171717"
TOPIC = topic_id("org-1", "weather")
RUN = "run-18181818-1818-4818-8818-181818181818"
REQUEST = RoutedRequest(
    pattern="contract_net",
    recipients=Recipients(capability="forecast", tags=["alps"], first=AGENT),
    messages=[Message(id="message-1", role="user", content="Will it snow?", created_at=AT)],
    max_steps=50,
    callers=[
        CallingRun(agent_id=OTHER, conversation_id=f"conv-{OTHER}", run_id=RUN, waits=True),
    ],
    award=AwardRule(prefer="highest", at_least=1.0),
    tell_losers=True,
)

ROUTING_COMMANDS: list[Command] = [
    DeclareCapability(
        agent_id=AGENT,
        capability=Capability(name="forecast", description="Weather of a week", priority=5),
    ),
    WithdrawCapability(agent_id=AGENT, name="forecast"),
    RouteMessage(routed_message_id=ROUTED, request=REQUEST, caller_run_id=RUN, seconds_max=60),
    SubscribeAgent(topic_id=TOPIC, name="weather", agent_id=AGENT),
    UnsubscribeAgent(topic_id=TOPIC, name="weather", agent_id=AGENT),
]


def of_routed(kind: type[Event], **fields: Any) -> Event:
    """An event of a routed message."""
    return kind(originator_id=ROUTED, originator_version=2, timestamp=AT, **fields)


def of_topic(kind: type[Event], **fields: Any) -> Event:
    """An event of a topic."""
    return kind(originator_id=TOPIC, originator_version=1, timestamp=AT, **fields)


ROUTING_EVENTS: list[Event] = [
    of_routed(
        RoutedMessageAccepted,
        request=REQUEST,
        stages=[[AGENT, OTHER]],
        deadline_at=AT + timedelta(seconds=60),
    ),
    of_routed(MessageRouted, number=1, agent_id=AGENT, run_id=RUN, purpose="bid"),
    of_routed(MessageDelivered, number=1, bid=7.5),
    of_routed(DeliveryFailed, number=1, code=UNAVAILABLE, reason="Its run is failed"),
    of_routed(RoutedMessageCompleted, answers=[1]),
    of_routed(RoutedMessageFailed, code=UNAVAILABLE, reason="No agent is available"),
    of_topic(AgentSubscribed, name="weather", agent_id=AGENT),
    of_topic(AgentUnsubscribed, name="weather", agent_id=AGENT),
]

SUBJECTS = {
    "DeclareCapability": f"agent.command.agent.declare_capability.org-1.{AGENT}",
    "WithdrawCapability": f"agent.command.agent.withdraw_capability.org-1.{AGENT}",
    "RouteMessage": f"groups.command.routed_message.route.org-1.{ROUTED}",
    "SubscribeAgent": f"groups.command.topic.subscribe.org-1.{TOPIC}",
    "UnsubscribeAgent": f"groups.command.topic.unsubscribe.org-1.{TOPIC}",
    "RoutedMessageAccepted": f"groups.event.routed_message.accepted.org-1.{ROUTED}",
    "MessageRouted": f"groups.event.message.routed.org-1.{ROUTED}",
    "MessageDelivered": f"groups.event.message.delivered.org-1.{ROUTED}",
    "DeliveryFailed": f"groups.event.delivery.failed.org-1.{ROUTED}",
    "RoutedMessageCompleted": f"groups.event.routed_message.completed.org-1.{ROUTED}",
    "RoutedMessageFailed": f"groups.event.routed_message.failed.org-1.{ROUTED}",
    "AgentSubscribed": f"groups.event.agent.subscribed.org-1.{TOPIC}",
    "AgentUnsubscribed": f"groups.event.agent.unsubscribed.org-1.{TOPIC}",
}
