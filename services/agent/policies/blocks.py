"""When a block is gone, no agent sees it any more."""

from __future__ import annotations

from libs.bus.ports import Bus
from libs.contracts.agent import DetachBlock
from libs.contracts.ids import derived_id
from libs.contracts.memory import BlockDeleted
from libs.contracts.message import Context, Event
from services.agent.adapters.queries import Queries


class BlockPolicies:
    """On event X, issue command Y."""

    def __init__(self, bus: Bus, queries: Queries) -> None:
        self.bus = bus
        self.queries = queries

    async def block_deleted(self, event: Event, context: Context) -> None:
        """Detach the block from every agent that has it."""
        assert isinstance(event, BlockDeleted)
        block_id = event.originator_id
        for agent_id in await self.queries.agents_seeing(block_id):
            cause = context.caused(derived_id("cmd", context.message_id, agent_id))
            await self.bus.request(DetachBlock(agent_id=agent_id, block_id=block_id), cause)
