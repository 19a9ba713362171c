"""A topic: the agents that get what is published on it."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel

from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import NOT_FOUND, UNPROCESSABLE, Event, Rejected
from libs.contracts.groups.topics import SUBSCRIBERS_MAX, AgentSubscribed, AgentUnsubscribed


class TopicState(BaseModel):
    """The subscribers, those that came first before the others."""

    subscribers: list[str] = []


class Topic(Aggregate[TopicState]):
    """One topic. It exists as long as anybody ever subscribed to it."""

    State = TopicState

    def subscribe(self, name: str, agent_id: str, *, at: datetime) -> Rejected | None:
        """Add a subscriber. Safe to repeat."""
        if agent_id in self.state.subscribers:
            return None
        if len(self.state.subscribers) >= SUBSCRIBERS_MAX:
            reason = f"Topic '{name}' has {SUBSCRIBERS_MAX} subscribers, the most: remove one first"
            return Rejected(code=UNPROCESSABLE, reason=reason)
        self.record(AgentSubscribed, at=at, name=name, agent_id=agent_id)
        return None

    def unsubscribe(self, name: str, agent_id: str, *, at: datetime) -> Rejected | None:
        """Remove a subscriber; refused where the agent is none."""
        if agent_id not in self.state.subscribers:
            reason = f"Agent {agent_id} does not subscribe to the topic '{name}'"
            return Rejected(code=NOT_FOUND, reason=reason)
        self.record(AgentUnsubscribed, at=at, name=name, agent_id=agent_id)
        return None

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        match event:
            case AgentSubscribed():
                self.state.subscribers.append(event.agent_id)
            case AgentUnsubscribed():
                self.state.subscribers.remove(event.agent_id)
