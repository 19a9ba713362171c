"""Commands about folders: load, decide, save, reply."""

from __future__ import annotations

from collections.abc import Mapping

from libs.bus.command_dispatcher import Handler
from libs.contracts.bus_messages import Accepted, Command, Json, Rejected
from libs.contracts.letta.folders import FolderState
from libs.contracts.letta.model_configs import EmbeddingConfig
from libs.contracts.memory.files import file_name_id
from libs.contracts.memory.folders import CreateFolder, DeleteFolder, UpdateFolder, folder_name_id
from libs.eventstore.unit_of_work import UnitOfWork
from services.memory.domain.file import File
from services.memory.domain.folder import (
    Folder,
    folder_config,
    missing,
    no_room_for_folder,
    refuse_name,
)
from services.memory.domain.name_reservations import FileName, FolderName
from services.memory.handlers.embedding_errors import answering, embedder_of
from services.memory.handlers.ports import HandlerPorts


class FolderHandlers:
    """The handlers of commands to folders."""

    def __init__(self, ports: HandlerPorts) -> None:
        self.ports = ports

    def table(self) -> Mapping[type[Command], Handler]:
        """The handler of each command."""
        return {
            CreateFolder: self.create_folder,
            UpdateFolder: self.update_folder,
            DeleteFolder: self.delete_folder,
        }

    async def create_folder(self, command: CreateFolder, work: UnitOfWork) -> Accepted | Rejected:
        """Make a folder, unless its name is taken."""
        org, at = work.context.org, self.ports.clock.now()
        full = no_room_for_folder(await self.ports.folders.folders_of(org))
        if full:
            return full
        config = self.embedding_config(command, org)
        if isinstance(config, Rejected):
            return config
        folder = await work.load_new(Folder, command.folder_id)
        refused = folder.create(
            FolderState(
                name=command.name,
                description=command.description,
                instructions=command.instructions,
                metadata=command.metadata,
                id=folder.id,
                embedding_config=config,
                organization_id=org,
                created_by_id=work.context.actor,
                last_updated_by_id=work.context.actor,
            ),
            at=at,
        )
        return refused or await self.take_name(command.name, folder.id, work) or Accepted()

    def embedding_config(self, command: CreateFolder, org: str) -> EmbeddingConfig | Rejected:
        """The config of a new folder, or the refusal of a model that there is not. No model is
        asked anything."""
        embedder = embedder_of(self.ports.embedders, command.embedding_config, org)
        if isinstance(embedder, Rejected):
            return embedder
        return folder_config(
            command.embedding_config,
            command.embedding_chunk_size,
            embedder.model,
            embedder.dimensions,
        )

    async def take_name(self, name: str, folder_id: str, work: UnitOfWork) -> Rejected | None:
        """Give a folder its name, unless another one has it."""
        guard = await work.load(FolderName, folder_name_id(work.context.org, name))
        return None if guard.take(folder_id, at=self.ports.clock.now()) else refuse_name(name)

    async def free_name(self, name: str, folder_id: str, work: UnitOfWork) -> None:
        """Let others have the name of a folder."""
        guard = await work.load(FolderName, folder_name_id(work.context.org, name))
        guard.free(folder_id, at=self.ports.clock.now())

    async def update_folder(self, command: UpdateFolder, work: UnitOfWork) -> Accepted | Rejected:
        """Change the given fields of a folder, and its name if that follows. Another model has to
        answer before its files are embedded by it."""
        folder = await work.load(Folder, command.folder_id)
        before, after = folder.present, folder.with_changes(command.changes)
        if before is None or isinstance(after, Rejected):
            return after if isinstance(after, Rejected) else missing(folder.id)
        if after.name != before.name:
            refused = await self.take_name(after.name, folder.id, work)
            if refused:
                return refused
            await self.free_name(before.name, folder.id, work)
        after = after.model_copy(update={"last_updated_by_id": work.context.actor})
        folder.become(after, at=self.ports.clock.now())
        wanted = command.changes.get("embedding_config")
        return await self.embed_by(folder, wanted, work) or Accepted()

    async def embed_by(self, folder: Folder, wanted: Json, work: UnitOfWork) -> Rejected | None:
        """Have the files of a folder embedded by a config from now on, if one is wanted."""
        if wanted is None:
            return None
        config = EmbeddingConfig.model_validate(wanted)
        embedder = await answering(self.ports.embedders, config, work.context.org)
        if isinstance(embedder, Rejected):
            return embedder
        folder.change_embedding(
            folder_config(config, None, embedder.model, embedder.dimensions),
            model=embedder.model,
            dimensions=embedder.dimensions,
            actor=work.context.actor,
            at=self.ports.clock.now(),
        )
        return None

    async def delete_folder(self, command: DeleteFolder, work: UnitOfWork) -> Accepted | Rejected:
        """Remove a folder; its files follow. Agents see it no more, however many there are, and let
        go of it soon."""
        folder = await work.load(Folder, command.folder_id)
        gone = folder.present
        refused = folder.delete(at=self.ports.clock.now())
        if gone is not None:
            await self.free_name(gone.name, folder.id, work)
        return refused or Accepted()


async def deleted_file(
    file_id: str, folder_id: str, work: UnitOfWork, ports: HandlerPorts
) -> Rejected | None:
    """Remove a file and let others have its name. The folder's lock is held: who deletes a file, or
    takes a name, comes with a message about the folder."""
    await work.hold(ports.locks.hold(file_id))
    file, at = await work.load(File, file_id), ports.clock.now()
    gone = file.present
    refused = file.delete(folder_id, at=at)
    if refused is None and gone is not None:
        guard = await work.load(FileName, file_name_id(work.context.org, folder_id, gone.name))
        guard.free(file_id, at=at)
    return refused
