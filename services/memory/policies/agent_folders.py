"""What happens to the folders that an agent sees when it is gone, or when they are."""

from __future__ import annotations

import logging

from libs.bus.ports import Bus, BusUnavailable, Clock, Ids, request_as_service
from libs.contracts.agent.agent_tools import AttachTool, DetachTool
from libs.contracts.bus_messages import NOT_FOUND, Command, Context, Event, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.memory.agent_folders import CloseFiles, DetachFolder, ForgetFolders
from libs.contracts.tools.base_tools.file_tools import FILE_TOOLS
from services.memory.adapters.agent_attachments import AgentAttachments, LostFolder

log = logging.getLogger(__name__)

LOST_EVERY_SECONDS = 60.0
LOST_AT_ONCE = 100


class AgentFoldersPolicies:
    """On event X, issue command Y."""

    def __init__(self, bus: Bus, attached: AgentAttachments, clock: Clock, ids: Ids) -> None:
        self.bus = bus
        self.attached = attached
        self.clock = clock
        self.ids = ids
        self.lost_at = 0.0

    async def agent_deleted(self, event: Event, context: Context) -> None:
        """An agent that is gone sees no folders. One that never did costs one look."""
        agent_id = event.originator_id
        if await self.attached.has_folders(context.org, agent_id):
            cause = context.caused(derived_id("cmd", context.message_id, "folders"))
            await request_as_service(self.bus, ForgetFolders(agent_id=agent_id), cause)

    def deleted_somewhere(self) -> None:
        """A folder or a file was deleted: look soon who had it."""
        self.lost_at = 0.0

    async def sweep(self) -> None:
        """Take from agents what is gone of folders and files, a bounded number at a time."""
        now = self.clock.monotonic()
        if now < self.lost_at:
            return
        self.lost_at = now + LOST_EVERY_SECONDS
        try:
            folders = await self.attached.lost_folders(LOST_AT_ONCE)
            for folder in folders:
                await self.take(folder)
            files = await self.attached.lost_files(LOST_AT_ONCE)
            for one in files:
                await self.send(CloseFiles(agent_id=one.agent_id, file_ids=one.file_ids), one.org)
            if LOST_AT_ONCE in (len(folders), len(files)):
                self.lost_at = now
        except BusUnavailable as problem:
            self.lost_at = now
            log.warning("agents still have folders or files that are gone: %s", problem)

    async def take(self, lost: LostFolder) -> None:
        """Take a folder from an agent. Its tools go first: where the process dies in between, the
        folder is still there to be found. Who attached another folder meanwhile has them again."""
        if lost.last:
            for tool in FILE_TOOLS:
                await self.send(DetachTool(agent_id=lost.agent_id, tool_id=tool.id), lost.org)
            if await self.attached.has_folders(lost.org, lost.agent_id):
                for tool in FILE_TOOLS:
                    await self.send(AttachTool(agent_id=lost.agent_id, tool_id=tool.id), lost.org)
        await self.send(DetachFolder(agent_id=lost.agent_id, folder_id=lost.folder_id), lost.org)

    async def send(self, command: Command, org: str) -> None:
        """Send a command that no event causes; what is not there any more is none of its
        business."""
        context = Context(self.ids.new("sweep"), org=org)
        reply = await request_as_service(self.bus, command, context)
        if isinstance(reply, Rejected) and reply.code != NOT_FOUND:
            log.warning("%s is refused: %s", command.topic, reply.reason)
