"""To one agent: the best that is available, and the next one if that fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from libs.contracts.agent.conversations import Message
from services.groups.domain.routing.plans import (
    Completed,
    Delivery,
    Plan,
    Routing,
    answer_among,
    as_sent,
    next_of,
)


class One:
    """Routes to one agent, with failover."""

    def plan(self, routing: Routing) -> Plan:
        """Try the next agent, or end with the answer."""
        done = answer_among(routing.of("answer"))
        if done:
            return Plan(end=Completed((done.number,)))
        return next_of(routing, "answer", routing.stages[0])

    def compose(
        self, routing: Routing, delivery: Delivery, texts: Mapping[int, str]
    ) -> Sequence[Message]:
        """The messages as they were sent."""
        return as_sent(routing, delivery)
