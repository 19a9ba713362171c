"""To many agents at once: their answers are gathered, or nobody waits for any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from libs.contracts.agent.conversations import Message
from libs.contracts.groups.routing import Purpose
from services.groups.domain.routing.plans import (
    WAIT,
    Completed,
    Delivery,
    Plan,
    Routing,
    Wanted,
    as_sent,
    nobody,
)


class ToAll:
    """Routes to all agents at once; ends when each has answered, failed, or is late."""

    purpose: Purpose = "answer"

    def plan(self, routing: Routing) -> Plan:
        """Ask all, then wait for the last of them."""
        asked = routing.of(self.purpose)
        if not asked:
            return Plan(tuple(Wanted(agent_id, self.purpose) for agent_id in routing.stages[0]))
        if any(delivery.status == "pending" for delivery in asked):
            return WAIT
        answers = tuple(each.number for each in asked if each.status == "delivered")
        return Plan(end=Completed(answers) if answers else nobody(asked, is_late=routing.is_late))

    def compose(
        self, routing: Routing, delivery: Delivery, texts: Mapping[int, str]
    ) -> Sequence[Message]:
        """The messages as they were sent."""
        return as_sent(routing, delivery)


class AskAll(ToAll):
    """Asks all, and gathers what they answer."""


class Publish(ToAll):
    """Tells all, and waits for no answer: a delivery is done when its run is accepted."""

    purpose: Purpose = "notice"
