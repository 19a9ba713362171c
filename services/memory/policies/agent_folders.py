"""What happens to the folders that an agent sees when it is gone."""

from __future__ import annotations

from libs.bus.ports import Bus, request_as_service
from libs.contracts.agent_folders import ForgetFolders
from libs.contracts.bus_messages import Context, Event
from libs.contracts.deterministic_ids import derived_id
from services.memory.adapters.attached_agents import AttachedAgents


class AgentFoldersPolicies:
    """On event X, issue command Y."""

    def __init__(self, bus: Bus, attached: AttachedAgents) -> None:
        self.bus = bus
        self.attached = attached

    async def agent_deleted(self, event: Event, context: Context) -> None:
        """An agent that is gone sees no folders. One that never did costs one look."""
        agent_id = event.originator_id
        if await self.attached.has_folders(context.org, agent_id):
            cause = context.caused(derived_id("cmd", context.message_id, "folders"))
            await request_as_service(self.bus, ForgetFolders(agent_id=agent_id), cause)
