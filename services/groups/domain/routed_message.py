"""A routed message: the deliveries that were tried, and what came of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from pydantic import BaseModel

from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import CONFLICT, Event, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.groups.routing import (
    DeliveryFailed,
    MessageDelivered,
    MessageRouted,
    Purpose,
    RoutedMessageAccepted,
    RoutedMessageCompleted,
    RoutedMessageFailed,
    RoutedRequest,
)
from services.groups.domain.routing.plans import Completed, Delivery, Failed, Plan, Routing

Phase = Literal["unknown", "active", "ended"]


class RoutedMessageState(BaseModel):
    """How far a message is."""

    phase: Phase = "unknown"
    request: RoutedRequest | None = None
    stages: list[list[str]] = []
    deadline_at: datetime | None = None
    bids_until: datetime | None = None
    deliveries: list[Delivery] = []
    answers: list[int] = []


class RoutedMessage(Aggregate[RoutedMessageState]):
    """One message on its way."""

    State = RoutedMessageState

    @property
    def deleted(self) -> bool:
        """Whether nothing will happen to it any more."""
        return self.state.phase == "ended"

    @property
    def is_active(self) -> bool:
        """Whether its result is still to come."""
        return self.state.phase == "active"

    def routing(self, at: datetime) -> Routing:
        """What a strategy decides on. It must be active."""
        return routing_of(self.state, at)

    def accept(
        self,
        request: RoutedRequest,
        stages: list[list[str]],
        *,
        deadline_at: datetime,
        bids_until: datetime | None = None,
        at: datetime,
    ) -> Rejected | None:
        """Begin to be routed, once: a message that exists is refused."""
        if self.exists:
            return Rejected(code=CONFLICT, reason=f"{self.id} was routed before")
        self.record(
            RoutedMessageAccepted,
            at=at,
            request=request,
            stages=stages,
            deadline_at=deadline_at,
            bids_until=bids_until,
        )
        return None

    def follow(self, plan: Plan, *, at: datetime) -> None:
        """Do what a strategy decided: deliver to some agents more, or end."""
        assert self.is_active, "a message that has ended goes nowhere"
        for wanted in plan.deliveries:
            number = len(self.state.deliveries) + 1
            self.record(
                MessageRouted,
                at=at,
                number=number,
                agent_id=wanted.agent_id,
                run_id=derived_id("run", self.id, str(number)),
                purpose=wanted.purpose,
                stage=wanted.stage,
            )
        match plan.end:
            case Completed(answers):
                self.record(RoutedMessageCompleted, at=at, answers=list(answers))
            case Failed(code, reason):
                self.record(RoutedMessageFailed, at=at, code=code, reason=reason)

    def deliver(self, number: int, *, bid: float | None = None, at: datetime) -> None:
        """Note that an agent has answered. Nothing happens if that is known or nobody waits."""
        if self.awaits(number):
            self.record(MessageDelivered, at=at, number=number, bid=bid)

    def fail(self, number: int, code: str, reason: str, *, at: datetime) -> None:
        """Note that an agent will not answer. Nothing happens if that is known or nobody waits."""
        if self.awaits(number):
            self.record(DeliveryFailed, at=at, number=number, code=code, reason=reason)

    def awaits(self, number: int) -> bool:
        """Whether the outcome of a delivery is still to come."""
        return self.is_active and self.state.deliveries[number - 1].status == "pending"

    def pending(self) -> Sequence[Delivery]:
        """The deliveries whose outcomes are still to come."""
        return [each for each in self.state.deliveries if each.status == "pending"]

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        state = self.state
        match event:
            case RoutedMessageAccepted():
                state.phase = "active"
                state.request = event.request
                state.stages = event.stages
                state.deadline_at = event.deadline_at
                state.bids_until = event.bids_until
            case MessageRouted():
                state.deliveries.append(delivery_of(event))
            case MessageDelivered():
                delivery = state.deliveries[event.number - 1]
                delivery.status, delivery.bid = "delivered", event.bid
            case DeliveryFailed():
                delivery = state.deliveries[event.number - 1]
                delivery.status, delivery.reason = "failed", event.reason
            case RoutedMessageCompleted():
                state.phase, state.answers = "ended", event.answers
            case RoutedMessageFailed():
                state.phase = "ended"


def routing_of(state: RoutedMessageState, at: datetime) -> Routing:
    """What a strategy decides on, of an active message."""
    assert state.request is not None, "an active message has a request"
    assert state.deadline_at is not None, "an active message has a deadline"
    return Routing(
        request=state.request,
        stages=state.stages,
        deliveries=state.deliveries,
        is_late=at >= state.deadline_at,
        is_bidding_over=state.bids_until is not None and at >= state.bids_until,
    )


def next_deadline(state: RoutedMessageState) -> datetime:
    """When something that an active message waits for now will not be waited for any more."""
    assert state.deadline_at is not None, "an active message has a deadline"
    bids = (d for d in state.deliveries if d.purpose == "bid" and d.status == "pending")
    return state.bids_until if state.bids_until and any(bids) else state.deadline_at


def delivery_of(event: MessageRouted) -> Delivery:
    """The delivery that begins with this event."""
    purpose: Purpose = event.purpose
    return Delivery(
        number=event.number,
        agent_id=event.agent_id,
        run_id=event.run_id,
        purpose=purpose,
        stage=event.stage,
    )
