"""What a strategy decides on, and what it decides.

A strategy is two pure functions: `plan` says where a message goes next or how it ends, `compose`
says what one delivery tells its agent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from pydantic import BaseModel

from libs.contracts.agent.conversations import Message
from libs.contracts.bus_messages import UNAVAILABLE
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.groups.routing import Purpose, RoutedRequest

REASONS_SHOWN_MAX = 8
REASON_CHARS_MAX = 500

type DeliveryStatus = Literal["pending", "delivered", "failed"]


class Delivery(BaseModel):
    """One message to one agent; `run_id` is the run that answers it."""

    number: int
    agent_id: str
    run_id: str
    purpose: Purpose
    stage: int = 0
    status: DeliveryStatus = "pending"
    bid: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Routing:
    """How far a message is. `stages` are the agents that may get it, the best first; a message
    that is late waits for nobody any more, and one whose bidding is over for no bids."""

    request: RoutedRequest
    stages: Sequence[Sequence[str]]
    deliveries: Sequence[Delivery]
    is_late: bool = False
    is_bidding_over: bool = False

    @property
    def overdue(self) -> list[Delivery]:
        """The deliveries that are not waited for any more."""
        return [
            each
            for each in self.deliveries
            if each.status == "pending"
            and (self.is_late or (self.is_bidding_over and each.purpose == "bid"))
        ]

    def of(self, purpose: Purpose, stage: int = 0) -> list[Delivery]:
        """The deliveries for a purpose."""
        return [d for d in self.deliveries if d.purpose == purpose and d.stage == stage]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A delivery that is to begin."""

    agent_id: str
    purpose: Purpose = "answer"
    stage: int = 0


@dataclass(frozen=True, slots=True)
class Completed:
    """The message has its answers: the numbers of these deliveries."""

    answers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """Nobody answers the message."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What happens next: deliveries, an end, both, or nothing but waiting."""

    deliveries: tuple[Wanted, ...] = ()
    end: Completed | Failed | None = None


WAIT = Plan()


class Strategy(Protocol):
    """How the messages of one pattern are routed."""

    def plan(self, routing: Routing) -> Plan:
        """Where the message goes next, or how it ends."""

    def compose(
        self, routing: Routing, delivery: Delivery, texts: Mapping[int, str]
    ) -> Sequence[Message]:
        """What a delivery tells its agent. `texts` are what deliveries before it were answered."""


def next_of(routing: Routing, purpose: Purpose, candidates: Sequence[str], stage: int = 0) -> Plan:
    """Try one agent after the other until one answers; a plan without deliveries and end means that
    one is being tried. Ends with a refusal where nobody is left."""
    tried = routing.of(purpose, stage)
    if any(delivery.status != "failed" for delivery in tried):
        return WAIT
    asked = {delivery.agent_id for delivery in tried}
    left = [agent_id for agent_id in candidates if agent_id not in asked]
    if not left or routing.is_late:
        return Plan(end=nobody(tried, is_late=routing.is_late))
    return Plan(deliveries=(Wanted(left[0], purpose, stage),))


def answer_among(deliveries: Sequence[Delivery]) -> Delivery | None:
    """The delivery that was answered, if one was."""
    return next((each for each in deliveries if each.status == "delivered"), None)


def nobody(tried: Sequence[Delivery], *, is_late: bool = False) -> Failed:
    """The refusal that says why nobody answered."""
    why = "; ".join(
        f"{each.agent_id}: {each.reason[:REASON_CHARS_MAX]}"
        for each in tried[:REASONS_SHOWN_MAX]
        if each.status == "failed"
    )
    what = "No agent answered in time" if is_late else "No agent that could answer is available"
    return Failed(UNAVAILABLE, f"{what}: {why}" if why else what)


def as_sent(routing: Routing, delivery: Delivery) -> list[Message]:
    """The messages as the client sent them, under ids of their own."""
    return [
        message.model_copy(update={"id": derived_id("message", delivery.run_id, str(index))})
        for index, message in enumerate(routing.request.messages)
    ]


def notice_of(routing: Routing, delivery: Delivery, text: str) -> Message:
    """A message about the one that is routed; a user's, so that every model answers it."""
    first = routing.request.messages[0]
    return Message(
        id=derived_id("message", delivery.run_id, "told"),
        role="user",
        content=text,
        created_at=first.created_at,
        sender_id=first.sender_id,
    )


def text_of(messages: Sequence[Message]) -> str:
    """The words of messages, as one text."""
    return "\n".join(words_of(message) for message in messages)


def words_of(message: Message) -> str:
    """The words of one message."""
    if isinstance(message.content, str):
        return message.content
    parts = message.content if isinstance(message.content, list) else []
    return "\n".join(
        str(part["text"]) for part in parts if isinstance(part, dict) and part.get("text")
    )
