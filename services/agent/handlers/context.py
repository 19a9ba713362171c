"""Commands about what models are shown of a conversation: load, decide, save, reply."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from libs.bus.command_dispatcher import Handler
from libs.contracts.bus_messages import Accepted, Command, Rejected
from libs.contracts.compaction import ClearContext
from libs.eventstore.unit_of_work import UnitOfWork
from services.agent.domain.agent import Agent, missing
from services.agent.domain.compaction import cannot_clear, clear
from services.agent.domain.conversation import Conversation
from services.agent.domain.conversation_lifecycle import missing_in
from services.agent.handlers.conversations import compiled
from services.agent.handlers.ports import HandlerPorts


class ContextHandlers:
    """Clears what models are shown."""

    def __init__(self, ports: HandlerPorts) -> None:
        self.ports = ports

    def table(self) -> Mapping[type[Command], Handler]:
        """Which command goes where."""
        return {ClearContext: self.clear_context}

    async def clear_context(self, command: ClearContext, work: UnitOfWork) -> Accepted | Rejected:
        """Show models nothing any more but the system message, made anew."""
        agent, conversation = await asyncio.gather(
            work.load(Agent, command.agent_id), work.load(Conversation, command.conversation)
        )
        if agent.design is None:
            return missing(agent.id)
        if not conversation.exists or not conversation.is_of(agent.id):
            return missing_in(agent.id, conversation.id)
        refused = cannot_clear(conversation.state)
        if refused:
            return refused
        at = self.ports.clock.now()
        clear(conversation, at=at)
        if conversation.state.window:
            prompt = await compiled(conversation, agent.design, self.ports, work)
            conversation.rebuild(prompt, at=at)
        return Accepted()
