"""Policies on memory blocks."""

from __future__ import annotations

from libs.bus.ports import Bus, request_as_service
from libs.contracts.agent.agents import AgentDeleted
from libs.contracts.agent.conversations import ConversationDeleted
from libs.contracts.bus_messages import Context, Event
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.memory.blocks import DeleteBlock
from services.memory.adapters.agent_attachments import AgentAttachments


class BlockPolicies:
    """On event X, issue command Y."""

    def __init__(self, bus: Bus, holders: AgentAttachments) -> None:
        self.bus = bus
        self.holders = holders

    async def agent_deleted(self, event: Event, context: Context) -> None:
        """The blocks that were made with an agent go with it, unless another agent sees them."""
        assert isinstance(event, AgentDeleted)
        await self.delete_unattached(event.own_block_ids, context)

    async def conversation_deleted(self, event: Event, context: Context) -> None:
        """The same for the blocks that were made with a conversation."""
        assert isinstance(event, ConversationDeleted)
        if event.own_block_ids:
            await self.delete_unattached(event.own_block_ids, context)

    async def delete_unattached(self, own: list[str], context: Context) -> None:
        """Delete those of these blocks that no agent sees."""
        for block_id in await self.holders.blocks_without_holder(context.org, own):
            cause = context.follow_up(derived_id("cmd", context.message_id, block_id))
            await request_as_service(self.bus, DeleteBlock(block_id=block_id), cause)
