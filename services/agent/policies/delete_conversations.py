"""Delete an agent's conversations after the agent was deleted."""

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
    """Delete the conversations of deleted agents.

    An agent may have more conversations than one commit can delete, and the creation of a
    conversation can race with the deletion of its agent. After both events the agent is checked
    again.
    """

    name = "conversations of agents that are gone"
    batch_max = SWEPT_MAX

    def __init__(self, bus: Bus, queries: ConversationQueries, clock: Clock, ids: Ids) -> None:
        super().__init__(clock)
        self.bus = bus
        self.queries = queries
        self.ids = ids

    def note_commit(self, event: Event) -> None:
        """Note the agents whose conversations may be left behind after this event."""
        match event:
            case AgentDeleted():
                self.suspect(event.originator_id)
            case ConversationCreated():
                self.suspect(event.config.agent_id)

    async def find(self, keys: list[str] | None) -> Sequence[LostConversation]:
        """Conversations whose agent is gone."""
        return await self.queries.lost_conversations(keys)

    async def mend(self, item: LostConversation) -> bool:
        """Delete one conversation whose agent is gone; returns whether that was accepted."""
        command = DeleteConversation(conversation_id=item.id)
        return await send_correction(self.bus, self.ids, command, item.org)
