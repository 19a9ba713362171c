"""When a folder is gone, so are its files; and when a file is gone, so is its text."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from libs.bus.ports import Clock
from libs.bus.process_ports import ProcessPorts
from libs.contracts.bus_messages import Context
from libs.contracts.memory.files import file_name_id
from libs.eventstore.unit_of_work import UnitOfWork
from libs.work.reconciliation import Reconciliation
from libs.work.work_lease import DueWork
from services.memory.adapters.file_processing_queries import FileProcessingQueries
from services.memory.adapters.file_texts import FileTexts
from services.memory.domain.file import File
from services.memory.domain.name_reservations import FileName

FILES_AT_ONCE = 50
TEXTS_AT_ONCE = 100


async def delete_file(file_id: str, unit: UnitOfWork, *, at: datetime) -> None:
    """Decide that a file is removed, unless it is gone."""
    file = await unit.load(File, file_id)
    gone = file.present
    if gone is None:
        return
    name_id = file_name_id(unit.context.org, gone.folder_id, gone.name)
    (await unit.load(FileName, name_id)).free(file_id, at=at)
    file.delete(gone.folder_id, at=at)


class DeleteFilesOfDeletedFolders(Reconciliation[DueWork]):
    """Removes the files of folders that are gone, whoever processes them."""

    name = "files of deleted folders"
    batch_max = FILES_AT_ONCE

    def __init__(self, ports: ProcessPorts, queries: FileProcessingQueries) -> None:
        super().__init__(ports.clock)
        self.ports = ports
        self.queries = queries

    async def find(self, keys: list[str] | None) -> Sequence[DueWork]:
        """Files whose folders are gone."""
        return await self.queries.orphans(FILES_AT_ONCE)

    async def mend(self, item: DueWork) -> bool:
        """Remove a file whose folder is gone."""
        ports = self.ports
        unit = ports.repository.work(Context(ports.ids.new("cleanup"), org=item.org))
        async with ports.locks.hold(item.id):
            await delete_file(item.id, unit, at=ports.clock.now())
            await unit.commit()
        ports.committed()
        return True


class RemoveUnnamedTexts(Reconciliation[str]):
    """Removes the texts of files that are gone, and texts that no file will name any more."""

    name = "texts of deleted files"
    batch_max = TEXTS_AT_ONCE
    every_seconds = 3_600.0  # of texts that no file has named for an hour

    def __init__(self, texts: FileTexts, clock: Clock) -> None:
        super().__init__(clock)
        self.texts = texts

    async def find(self, keys: list[str] | None) -> Sequence[str]:
        """The ids of such texts: of all, but of the recent ones where only time has passed."""
        return await self.texts.unnamed_texts(TEXTS_AT_ONCE, recent=keys is None and self.by_clock)

    async def mend(self, item: str) -> bool:
        """Remove a text that no file names."""
        await self.texts.remove(item)
        return True
