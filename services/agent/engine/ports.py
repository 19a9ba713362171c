"""Ports of the engine: the store, the bus, models, tools, and the process's own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from libs.bus.process_ports import ProcessPorts
from libs.contracts.bus_messages import Context
from libs.eventstore.ports import Fence
from services.agent.adapters.all_queries import Queries
from services.agent.adapters.models.ports import Models
from services.agent.adapters.tool_permissions import Policies
from services.agent.adapters.tool_router import Tools
from services.agent.settings import Deadlines


@dataclass(slots=True, kw_only=True)
class EnginePorts(ProcessPorts):
    """Shared by all attempts of a process."""

    models: Models
    tools: Tools
    queries: Queries
    policies: Policies
    deadlines: Deadlines = field(default_factory=Deadlines)


class Scheduler(Protocol):
    """The scheduler of attempts, as an attempt sees it."""

    def begin(self, conversation_id: str, epoch: int | None, context: Context) -> None:
        """Begin another attempt, under a lease of this epoch; without one, somebody else does."""

    def leave(self, conversation_id: str) -> None:
        """Leave a conversation to newer processes for a while."""

    def has_begun_another(self, fence: Fence) -> bool:
        """Whether an attempt has begun under a later lease of the same conversation."""
