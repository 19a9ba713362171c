"""Ports of the agent service's handlers."""

from __future__ import annotations

from dataclasses import dataclass, field

from libs.bus.process_ports import ProcessPorts
from libs.contracts.agent.summaries import SummaryLimits
from libs.egress.address_guard import AddressGuard
from libs.eventstore.unit_of_work import UnitOfWork
from services.agent.adapters.all_queries import Queries
from services.agent.adapters.models.ports import Models
from services.agent.domain.conversations.conversation import Conversation
from services.agent.engine.run_attempt import PreparedStep
from services.agent.engine.run_scheduling import RunEngine


@dataclass(slots=True, kw_only=True)
class HandlerPorts(ProcessPorts):
    """The ports that a handler may use."""

    handles: Models
    queries: Queries
    engine: RunEngine
    guard: AddressGuard = field(default_factory=AddressGuard)
    summaries: SummaryLimits = field(default_factory=SummaryLimits)

    def begin_after_commit(
        self, conversation: Conversation, work: UnitOfWork, fresh: PreparedStep | None = None
    ) -> None:
        """Once it is committed that a run of a conversation has started, begin an attempt at it."""
        work.take_lease = conversation.id
        work.after_commit.append(
            lambda epoch: self.engine.begin(conversation.id, epoch, work.context, fresh)
        )
