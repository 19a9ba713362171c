"""What becomes of subscriptions when agents are deleted."""

from __future__ import annotations

from collections.abc import Sequence

from libs.contracts.groups.topics import UnsubscribeAgent
from libs.work.reconciliation import Correction
from services.groups.adapters.recipient_queries import (
    SWEPT_MAX,
    LostSubscription,
    RecipientQueries,
)


class UnsubscribeDeletedAgents(Correction[LostSubscription, RecipientQueries]):
    """Removes agents that were deleted from the topics that they subscribed to."""

    name = "deleted subscribers of topics"
    batch_max = SWEPT_MAX

    async def find(self, keys: list[str] | None) -> Sequence[LostSubscription]:
        """Subscriptions of agents that were deleted."""
        return await self.queries.lost_subscriptions(keys)

    async def mend(self, item: LostSubscription) -> bool:
        """Remove one subscription of one deleted agent."""
        command = UnsubscribeAgent(topic_id=item.topic_id, name=item.topic, agent_id=item.agent_id)
        return await self.send(command, item.org)
