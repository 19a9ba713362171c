"""The language of the groups service: messages that are routed to whoever can answer them."""

from __future__ import annotations

from datetime import datetime
from operator import not_
from typing import Literal

from pydantic import Field

from libs.contracts.agent.conversations import Message
from libs.contracts.agent.runs import CallingRun
from libs.contracts.bus_messages import Command, Event, Value, delta_subject, is_none

SERVICE = "groups"

# So many agents are asked at once, or tried one after the other.
RECIPIENTS_MAX = 100
ATTEMPTS_MAX = 8
STAGES_MAX = 8
ROUTING_SECONDS_DEFAULT = 600
ROUTING_SECONDS_MAX = 3_600
# So much of the time of a message agents have for their bids; the rest is for the task.
BIDDING_PART = 0.5

Pattern = Literal["one", "scatter_gather", "publish", "pipeline", "contract_net"]
# What a run is for: to answer, to bid, to do what was awarded, or only to know.
Purpose = Literal["answer", "bid", "award", "notice"]


class Recipients(Value):
    """Which agents a message is for: those that have a capability, those of a list, those that have
    all of some tags, or the subscribers of a topic. Tags beside a capability narrow it down. A
    pipeline has a list of agents or of `capabilities`, a stage for each. `first` is the agent that
    is tried before all others."""

    capability: str = Field(default="", exclude_if=not_)
    capabilities: list[str] = Field(default_factory=list, exclude_if=not_)
    agent_ids: list[str] = Field(default_factory=list, exclude_if=not_)
    tags: list[str] = Field(default_factory=list, exclude_if=not_)
    topic: str = Field(default="", exclude_if=not_)
    first: str = Field(default="", exclude_if=not_)


class AwardRule(Value):
    """Which bid wins: the lowest or the highest number, of those within the bounds."""

    prefer: Literal["lowest", "highest"] = "lowest"
    at_least: float | None = None
    at_most: float | None = None


class RoutedRequest(Value):
    """A message to be routed, and to whom. `callers` are the runs that led to it."""

    pattern: Pattern
    recipients: Recipients
    messages: list[Message]
    max_steps: int
    callers: list[CallingRun] = Field(default_factory=list, exclude_if=not_)
    award: AwardRule | None = Field(default=None, exclude_if=is_none)
    tell_losers: bool = Field(default=False, exclude_if=not_)


class RouteMessage(Command, service=SERVICE, topic="routed_message.route"):
    """Route a message; `caller_run_id` is the run that it comes from, where a client says so."""

    routed_message_id: str
    request: RoutedRequest
    caller_run_id: str = Field(default="", exclude_if=not_)
    seconds_max: int = ROUTING_SECONDS_DEFAULT

    @property
    def target(self) -> str:
        """Each message is one of its own: none waits for another."""
        return self.routed_message_id


class RoutedMessageAccepted(Event, service=SERVICE, topic="routed_message.accepted"):
    """A message will be routed: by stage, the agents that may get it, the best first.

    Bids are waited for until `bids_until`."""

    request: RoutedRequest
    stages: list[list[str]]
    deadline_at: datetime
    bids_until: datetime | None = Field(default=None, exclude_if=is_none)


class MessageRouted(Event, service=SERVICE, topic="message.routed"):
    """A message goes to an agent, as the delivery of this number, and a run there answers it."""

    number: int
    agent_id: str
    run_id: str
    purpose: Purpose
    stage: int = Field(default=0, exclude_if=not_)


class MessageDelivered(Event, service=SERVICE, topic="message.delivered"):
    """An agent has answered, with `bid` where it was asked for one, or has what it had to know."""

    number: int
    bid: float | None = Field(default=None, exclude_if=is_none)


class DeliveryFailed(Event, service=SERVICE, topic="delivery.failed"):
    """An agent did not take a message, or gave no answer to it."""

    number: int
    code: str
    reason: str


class RoutedMessageCompleted(Event, service=SERVICE, topic="routed_message.completed"):
    """Routing a message has ended, and these deliveries are its result."""

    answers: list[int]


class RoutedMessageFailed(Event, service=SERVICE, topic="routed_message.failed"):
    """Routing a message has ended without a result."""

    code: str
    reason: str


def routed_message_deltas(org: str, routed_message_id: str) -> str:
    """The subject on which the end of a routed message is published."""
    return delta_subject(SERVICE, "routed_message", "progress", org, routed_message_id)
