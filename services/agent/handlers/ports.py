"""Ports of the agent service's handlers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from libs.bus.process_ports import ProcessPorts
from libs.contracts.agent.summaries import SummaryLimits
from libs.contracts.bus_messages import Rejected
from libs.contracts.letta.model_configs import EmbeddingConfig, LLMConfig
from libs.egress.address_guard import AddressGuard
from libs.eventstore.unit_of_work import UnitOfWork
from services.agent.adapters.all_queries import Queries
from services.agent.domain.conversations.conversation import Conversation
from services.agent.engine.run_attempt import PreparedStep
from services.agent.engine.run_scheduling import RunEngine


class Handles(Protocol):
    """Which models there are."""

    async def llm(self, handle: str) -> LLMConfig | Rejected:
        """The config of a language model."""
        ...

    async def embedding(self, handle: str) -> EmbeddingConfig | Rejected:
        """The config of an embedding model."""
        ...

    async def refusal(self, config: LLMConfig) -> Rejected | None:
        """Why nobody could answer for a model config, if so."""
        ...


@dataclass(slots=True, kw_only=True)
class HandlerPorts(ProcessPorts):
    """The ports that a handler may use."""

    handles: Handles
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
