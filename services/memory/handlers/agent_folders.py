"""Commands about the folders of agents: load, decide, save, reply."""

from __future__ import annotations

from collections.abc import Mapping

from libs.bus.command_dispatcher import Handler
from libs.contracts.bus_messages import NOT_FOUND, Accepted, Command, Rejected
from libs.contracts.memory.agent_folders import (
    AttachFolder,
    CloseFiles,
    DetachFolder,
    ForgetFolders,
    OpenFiles,
)
from libs.eventstore.unit_of_work import UnitOfWork
from services.memory.domain.agent_folders import AgentFolders
from services.memory.domain.file import File
from services.memory.domain.folder import Folder, missing
from services.memory.handlers.ports import HandlerPorts


class AgentFoldersHandlers:
    """The handlers of commands to the folders of an agent."""

    def __init__(self, ports: HandlerPorts) -> None:
        self.ports = ports

    def table(self) -> Mapping[type[Command], Handler]:
        """The handler of each command."""
        return {
            AttachFolder: self.attach_folder,
            DetachFolder: self.detach_folder,
            OpenFiles: self.open_files,
            CloseFiles: self.close_files,
            ForgetFolders: self.forget_folders,
        }

    async def attach_folder(self, command: AttachFolder, work: UnitOfWork) -> Accepted | Rejected:
        """Let an agent see a folder, and as many of its files as may be open; what it had open
        makes room for them."""
        org, at = work.context.org, self.ports.clock.now()
        folder = await work.load(Folder, command.folder_id)
        if folder.present is None:
            return missing(folder.id)
        if not await self.ports.attached.agent_exists(org, command.agent_id):
            reason = f"Agent with id '{command.agent_id}' not found"
            return Rejected(code=NOT_FOUND, reason=reason)
        agent = await work.load(AgentFolders, command.target)
        new = folder.id not in agent.state.folders
        refused = agent.attach(command.agent_id, folder.id, at=at)
        if refused:
            return refused
        if new and command.files_max > 0:
            queries, most = self.ports.folders, command.files_max
            ids = await queries.readable_files(org, folder.id, most)
            agent.show(command.agent_id, folder.id, ids, files_max=most, at=at)
        return Accepted()

    async def detach_folder(self, command: DetachFolder, work: UnitOfWork) -> Accepted | Rejected:
        """Let an agent see a folder no more."""
        agent = await work.load(AgentFolders, command.target)
        refused = agent.detach(command.agent_id, command.folder_id, at=self.ports.clock.now())
        return refused or Accepted(result={"left": len(agent.state.folders)})

    async def open_files(self, command: OpenFiles, work: UnitOfWork) -> Accepted | Rejected:
        """Show files to an agent."""
        agent = await work.load(AgentFolders, command.target)
        folders: dict[str, str] = {}
        for view in command.files[: command.files_max + 1]:
            file = (await work.load(File, view.file_id)).present
            if file is not None:
                folders[view.file_id] = file.folder_id
        before = [*agent.state.opened]
        refused = agent.open(
            command.agent_id,
            command.files,
            folders,
            files_max=command.files_max,
            close_others=command.close_others,
            at=self.ports.clock.now(),
        )
        return refused or closed_since(agent, before)

    async def close_files(self, command: CloseFiles, work: UnitOfWork) -> Accepted:
        """Show files to an agent no more."""
        agent = await work.load(AgentFolders, command.target)
        at = self.ports.clock.now()
        before = [*agent.state.opened]
        agent.close(command.agent_id, command.file_ids, at=at)
        return closed_since(agent, before)

    async def forget_folders(self, command: ForgetFolders, work: UnitOfWork) -> Accepted:
        """Let go of the folders of an agent that is gone."""
        agent = await work.load(AgentFolders, command.target)
        agent.forget(command.agent_id, at=self.ports.clock.now())
        return Accepted()


def closed_since(agent: AgentFolders, before: list[str]) -> Accepted:
    """The answer that names the files which were open before and are not any more."""
    return Accepted(
        result={"closed": [file_id for file_id in before if file_id not in agent.state.opened]}
    )
