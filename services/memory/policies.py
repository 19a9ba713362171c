"""What the memory service does when something happened elsewhere."""

from __future__ import annotations

from libs.bus.ports import Bus, request_as_service
from libs.contracts.agent import AgentDeleted
from libs.contracts.ids import derived_id
from libs.contracts.memory import DeleteBlock
from libs.contracts.message import Context, Event
from services.memory.adapters.holders import Holders


class Policies:
    """On event X, issue command Y."""

    def __init__(self, bus: Bus, holders: Holders) -> None:
        self.bus = bus
        self.holders = holders

    async def agent_deleted(self, event: Event, context: Context) -> None:
        """The blocks that were made with an agent go with it, unless another agent sees them."""
        assert isinstance(event, AgentDeleted)
        for block_id in await self.holders.blocks_without_holder(event.own_block_ids):
            cause = context.caused(derived_id("cmd", context.message_id, block_id))
            await request_as_service(self.bus, DeleteBlock(block_id=block_id), cause)
