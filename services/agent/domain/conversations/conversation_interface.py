"""A conversation as the modules know it that decide for it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Protocol

from libs.contracts.agent.conversations import Message, StartRun
from libs.contracts.bus_messages import Event, Rejected
from libs.contracts.letta.enums import AgentType
from libs.contracts.letta.tool_rules import ToolRule
from services.agent.domain.conversations.active_run import ActiveRun
from services.agent.domain.conversations.conversation_state import ConversationState


class DecidingConversation(Protocol):
    """What of `Conversation` is decided from, and what records a decision."""

    state: ConversationState

    def happened[E: Event](self, event: type[E], *, at: datetime, **fields: Any) -> None:
        """Record an event, which evolves the state."""
        ...

    def running(self) -> ActiveRun:
        """The active run, where there must be one."""
        ...

    def append_in_step(self, message: Message, *, at: datetime) -> None:
        """Put a message of the running step into the history."""
        ...

    def accept(
        self,
        command: StartRun,
        agent_type: AgentType,
        *,
        tool_rules: list[ToolRule] | None = None,
        asked_at: datetime,
        at: datetime,
    ) -> Rejected | None:
        """Promise to answer."""
        ...

    def settle(self, *, at: datetime) -> None:
        """Record what the client has a part in."""
        ...

    def go_on(self, *, at: datetime) -> None:
        """Record what follows by itself."""
        ...
