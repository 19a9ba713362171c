"""Policies of the memory service on events of others, a module for each kind of thing they act
on."""

from __future__ import annotations

from libs.bus.ports import Bus, Clock, Ids
from libs.contracts.bus_messages import Context, Event
from services.memory.adapters.agent_attachments import AgentAttachments
from services.memory.adapters.archive_queries import ArchiveQueries
from services.memory.adapters.message_vectors import MessageVectors
from services.memory.policies.agent_folders import AgentFoldersPolicies
from services.memory.policies.archives import ArchivePolicies
from services.memory.policies.blocks import BlockPolicies
from services.memory.policies.reembedding import ReembeddingPolicies


class Policies:
    """On event X, issue the commands Y of every kind."""

    def __init__(
        self,
        bus: Bus,
        attached: AgentAttachments,
        archives: ArchiveQueries,
        vectors: MessageVectors,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self.attached = attached
        self.blocks = BlockPolicies(bus, attached)
        self.archives = ArchivePolicies(bus, archives, clock, ids)
        self.agent_folders = AgentFoldersPolicies(bus, attached, clock, ids)
        self.vectors = vectors
        self.reembedding = ReembeddingPolicies(bus, archives, clock, ids)

    async def agent_deleted(self, event: Event, context: Context) -> None:
        """Delete the agent's own things, unless an import has made the agent again meanwhile."""
        if await self.attached.agent_exists(context.org, event.originator_id):
            return
        await self.blocks.agent_deleted(event, context)
        await self.archives.agent_deleted(event, context)
        await self.agent_folders.agent_deleted(event, context)

    async def conversation_deleted(self, event: Event, context: Context) -> None:
        """Delete the conversation's own things."""
        await self.blocks.conversation_deleted(event, context)
        await self.vectors.forget(context.org, event.originator_id)
