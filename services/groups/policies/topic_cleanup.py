"""What becomes of subscriptions when agents are deleted."""

from __future__ import annotations

from collections.abc import Sequence

from libs.bus.ports import Bus, Clock, Ids
from libs.contracts.groups.topics import UnsubscribeAgent
from libs.work.reconciliation import Reconciliation, send_correction
from services.groups.adapters.recipient_queries import (
    SWEPT_MAX,
    LostSubscription,
    RecipientQueries,
)


class UnsubscribeDeletedAgents(Reconciliation[LostSubscription]):
    """Removes agents that were deleted from the topics that they subscribed to."""

    name = "deleted subscribers of topics"
    batch_max = SWEPT_MAX

    def __init__(self, bus: Bus, queries: RecipientQueries, clock: Clock, ids: Ids) -> None:
        super().__init__(clock)
        self.bus = bus
        self.queries = queries
        self.ids = ids

    async def find(self, keys: list[str] | None) -> Sequence[LostSubscription]:
        """Subscriptions of agents that were deleted."""
        return await self.queries.lost_subscriptions(keys)

    async def mend(self, item: LostSubscription) -> bool:
        """Remove one subscription of one deleted agent."""
        command = UnsubscribeAgent(topic_id=item.topic_id, name=item.topic, agent_id=item.agent_id)
        return await send_correction(self.bus, self.ids, command, item.org)
