"""Commands about the files of folders: load, decide, save, reply."""

from __future__ import annotations

from collections.abc import Mapping

from libs.bus.command_dispatcher import Handler
from libs.contracts.bus_messages import CONFLICT, Accepted, Command, Rejected
from libs.contracts.memory.files import AddFile, DeleteFile, file_name_id
from libs.eventstore.unit_of_work import UnitOfWork
from services.memory.domain.file import (
    SAME_NAME_MAX,
    File,
    added_already,
    no_room_for_file,
    present_already,
    with_suffix,
)
from services.memory.domain.folder import Folder
from services.memory.domain.folder import missing as missing_folder
from services.memory.domain.name_reservations import FileName
from services.memory.handlers.folders import deleted_file
from services.memory.handlers.ports import HandlerPorts


class FileHandlers:
    """The handlers of commands to files."""

    def __init__(self, ports: HandlerPorts) -> None:
        self.ports = ports

    def table(self) -> Mapping[type[Command], Handler]:
        """The handler of each command."""
        return {AddFile: self.add_file, DeleteFile: self.delete_file}

    async def add_file(self, command: AddFile, work: UnitOfWork) -> Accepted | Rejected:
        """Put an uploaded file into a folder, and begin to process it."""
        org = work.context.org
        loaded = await work.load(Folder, command.folder_id)
        folder = loaded.present
        if folder is None:
            return missing_folder(command.folder_id)
        full = no_room_for_file(await self.ports.folders.files_of(org, folder.id), folder.name)
        if full:
            return full
        guard = await self.guard(command.name, folder.id, work)
        if guard.owner_id == command.file_id:
            return added_already(command.file_id)  # a copy of a command, which replaces nothing
        if guard.owner_id is not None:
            if command.duplicates == "skip" or await self.comes_late(command, guard, work):
                return Accepted(result={"file_id": guard.owner_id, "skipped": True})
            if command.duplicates == "error":
                return present_already(command.name, folder.name)
        name = await self.name_for(command, guard, work)
        if name is None:
            reason = f"There are {SAME_NAME_MAX} files called '{command.name}': use another `name`"
            return Rejected(code=CONFLICT, reason=reason)
        # Once it is there others decide about it too, while a copy of this command does.
        await work.hold(self.ports.locks.hold(command.file_id))
        file = await work.load_new(File, command.file_id)
        refused = file.add(command, folder, name, at=self.ports.clock.now())
        self.ports.file_added(file.id, work)
        return refused or Accepted(result={"file_id": file.id, "skipped": False})

    async def comes_late(self, command: AddFile, guard: FileName, work: UnitOfWork) -> bool:
        """Whether a file that would replace another one began before that did: an attempt that its
        client gave up, and made again, must not take the place of what came of that."""
        if guard.owner_id is None or command.duplicates != "replace":
            return False
        return (await work.load(File, guard.owner_id)).begun_after(command)

    async def name_for(self, command: AddFile, guard: FileName, work: UnitOfWork) -> str | None:
        """The name that a file gets, which is its own from now on: the one that it came by, where
        that is free or whoever has it is replaced, else that with a number."""
        org, folder_id, at = work.context.org, command.folder_id, self.ports.clock.now()
        if guard.owner_id is not None and command.duplicates == "replace":
            await deleted_file(guard.owner_id, folder_id, work, self.ports)
        if guard.take(command.file_id, at=at):
            return command.name
        first = await self.ports.folders.same_name(org, folder_id, command.name)
        for number in range(max(first, 1), first + SAME_NAME_MAX):
            name = with_suffix(command.name, number)
            if (await self.guard(name, folder_id, work)).take(command.file_id, at=at):
                return name
        return None

    async def guard(self, name: str, folder_id: str, work: UnitOfWork) -> FileName:
        """The aggregate that guards the name of a file in a folder."""
        return await work.load(FileName, file_name_id(work.context.org, folder_id, name))

    async def delete_file(self, command: DeleteFile, work: UnitOfWork) -> Accepted | Rejected:
        """Remove a file, if it exists."""
        refused = await deleted_file(command.file_id, command.folder_id, work, self.ports)
        return refused or Accepted()
