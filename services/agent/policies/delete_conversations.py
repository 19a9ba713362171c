"""When an agent is gone, so are its conversations."""

from __future__ import annotations

from collections.abc import Sequence

from libs.bus.ports import Bus, Clock, Ids
from libs.contracts.agent.agents import AgentDeleted
from libs.contracts.agent.conversations import ConversationCreated, DeleteConversation
from libs.contracts.bus_messages import Event
from libs.work.reconciliation import Reconciliation, send_correction
from services.agent.adapters.conversation_queries import ConversationQueries, LostConversation
from services.agent.adapters.reconciliation_queries import SWEPT_MAX

ORPHANING_EVENTS = (AgentDeleted, ConversationCreated)


class DeleteConversations(Reconciliation[LostConversation]):
    """An agent may have more conversations than one commit can delete, and one may be made in the
    very moment in which its agent is deleted. So after either the agent is looked at once more.
    """

    name = "conversations of agents that are gone"
    batch_max = SWEPT_MAX

    def __init__(self, bus: Bus, queries: ConversationQueries, clock: Clock, ids: Ids) -> None:
        super().__init__(clock)
        self.bus = bus
        self.queries = queries
        self.ids = ids

    def committed(self, event: Event) -> None:
        """Note whose conversations may be left behind."""
        match event:
            case AgentDeleted():
                self.suspect(event.originator_id)
            case ConversationCreated():
                self.suspect(event.config.agent_id)

    async def find(self, keys: list[str] | None) -> Sequence[LostConversation]:
        """Conversations whose agent is gone."""
        return await self.queries.lost_conversations(keys)

    async def mend(self, item: LostConversation) -> bool:
        """Delete one of them."""
        command = DeleteConversation(conversation_id=item.id)
        return await send_correction(self.bus, self.ids, command, item.org)
