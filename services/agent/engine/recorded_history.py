"""Recorded history of a run and of its agent, read from the log in pages."""

from __future__ import annotations

from libs.contracts.agent.run_replays import ReplayedRun
from libs.contracts.bus_messages import EVENTS
from libs.eventstore.event_decoding import ADDITIVE, event_of
from libs.eventstore.ports import IMPORT, StoredEvent
from services.agent.adapters.replay_queries import HISTORY_PAGE_EVENTS_MAX, ReplayQueries
from services.agent.domain.agents.agent import Agent, AgentDesign
from services.agent.domain.replays.recorded_run import Moment, RecordedRun
from services.agent.domain.runs.step_results import Failure

SERVICE = "agent"


class CannotReplay(Exception):
    """A replay cannot go on; `failure` says why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class RecordedHistory:
    """The events of the agent service, as replays read them: in pages, and never as of today."""

    def __init__(self, queries: ReplayQueries, org: str) -> None:
        self.queries = queries
        self.org = org
        self.agent: Agent | None = None
        self.ahead: list[StoredEvent] = []
        self.first_design: AgentDesign | None = None

    async def recorded_run(self, run: ReplayedRun, from_step: int) -> RecordedRun:
        """A run, with its conversation as it stood before a step. Raises CannotReplay where it has
        no such step."""
        recorded = RecordedRun(run.conversation_id, run.run_id, from_step)
        after, is_last = 0, False
        while not recorded.is_over and not is_last:
            page = await self.queries.history_page_of(self.org, run.conversation_id, after)
            is_last = len(page) < HISTORY_PAGE_EVENTS_MAX
            for stored in page:
                after = stored.version
                if is_unknown_addition(stored):
                    recorded.skip(stored.version)
                else:
                    recorded.take(event_of(SERVICE, stored), stored.commit_order)
        if not recorded.is_reached:
            why = f"`from_step`: {run.run_id} never asked a model for step {from_step}"
            raise CannotReplay(Failure("llm_unprocessable_entity", why))
        return recorded

    async def design_at(self, agent_id: str, moment: Moment) -> tuple[AgentDesign | None, bool]:
        """The agent as it was at this moment, each time a later one; and whether that is known.
        Where it is not, the agent as it was first known. What came from elsewhere was committed
        when it came: of that the times decide."""
        if self.agent is None:
            self.agent = Agent.blank(agent_id)
            self.ahead = await self.history_of(agent_id)
        while self.ahead and has_happened(self.ahead[0], moment):
            self.fold(self.agent, self.ahead.pop(0))
        if self.agent.design is not None:
            return self.agent.design, True
        return self.first_known(agent_id), False

    def first_known(self, agent_id: str) -> AgentDesign | None:
        """The agent as it was when it came to be."""
        if self.first_design is None:
            agent = Agent.blank(agent_id)
            for stored in self.ahead:
                self.fold(agent, stored)
                if agent.design is not None:
                    self.first_design = agent.design
                    break
        return self.first_design

    async def history_of(self, aggregate_id: str) -> list[StoredEvent]:
        """All events of an aggregate that has few."""
        found: list[StoredEvent] = []
        while True:
            after = found[-1].version if found else 0
            page = await self.queries.history_page_of(self.org, aggregate_id, after)
            found += page
            if len(page) < HISTORY_PAGE_EVENTS_MAX:
                return found

    def fold(self, agent: Agent, stored: StoredEvent) -> None:
        """Let an agent evolve by a stored event."""
        if is_unknown_addition(stored):
            agent.version = stored.version
        else:
            event_of(SERVICE, stored).mutate(agent)


def has_happened(stored: StoredEvent, moment: Moment) -> bool:
    """Whether an event had happened at a moment."""
    by_time = IMPORT in stored.metadata and stored.occurred_at <= moment.at
    return by_time or stored.commit_order <= moment.order


def is_unknown_addition(stored: StoredEvent) -> bool:
    """Whether an event may be left out by a process that does not know it."""
    return bool(stored.metadata.get(ADDITIVE)) and f"{SERVICE}.{stored.topic}" not in EVENTS
