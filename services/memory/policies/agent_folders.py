"""Policies on the folders that an agent sees, when it or they are deleted."""

from __future__ import annotations

from collections.abc import Sequence

from libs.bus.ports import request_as_service
from libs.contracts.agent.agents import AttachTool, DetachTool
from libs.contracts.bus_messages import Context, Event
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.memory.agent_folders import CloseFiles, DetachFolder, ForgetFolders
from libs.contracts.tools.base_tools.file_tools import FILE_TOOLS
from libs.work.reconciliation import Correction
from services.memory.adapters.agent_attachments import AgentAttachments, LostFiles, LostFolder

LOST_AT_ONCE = 100


class AgentFoldersPolicies(Correction[LostFolder | LostFiles, AgentAttachments]):
    """On event X, issue command Y."""

    name = "folders and files of agents that are gone"
    batch_max = LOST_AT_ONCE

    async def agent_deleted(self, event: Event, context: Context) -> None:
        """An agent that is gone sees no folders. One that never did costs one look."""
        agent_id = event.originator_id
        if await self.queries.has_folders(context.org, agent_id):
            cause = context.follow_up(derived_id("cmd", context.message_id, "folders"))
            await request_as_service(self.bus, ForgetFolders(agent_id=agent_id), cause)

    async def find(self, keys: list[str] | None) -> Sequence[LostFolder | LostFiles]:
        """The folders that agents still see, and the files that they have open, and that are
        gone."""
        folders = await self.queries.lost_folders(LOST_AT_ONCE)
        return [*folders, *await self.queries.lost_files(LOST_AT_ONCE)]

    async def mend(self, item: LostFolder | LostFiles) -> bool:
        """Take from an agent what is gone."""
        if isinstance(item, LostFolder):
            return await self.take(item)
        return await self.send(CloseFiles(agent_id=item.agent_id, file_ids=item.file_ids), item.org)

    async def take(self, lost: LostFolder) -> bool:
        """Take a folder from an agent. Its tools go first: where the process dies in between, the
        folder is still there to be found. Who attached another folder meanwhile has them again."""
        agent_id, org = lost.agent_id, lost.org
        if lost.last:
            for tool in FILE_TOOLS:
                await self.send(DetachTool(agent_id=agent_id, tool_id=tool.id), org)
            if await self.queries.has_folders(org, agent_id):
                for tool in FILE_TOOLS:
                    await self.send(AttachTool(agent_id=agent_id, tool_id=tool.id), org)
        return await self.send(DetachFolder(agent_id=agent_id, folder_id=lost.folder_id), org)
