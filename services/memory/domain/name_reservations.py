"""Names that one thing has at a time: of a folder in an organisation, of a file in a folder."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel

from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import Event
from libs.contracts.memory.files import FileNameFreed, FileNameTaken
from libs.contracts.memory.folders import FolderNameFreed, FolderNameTaken


class NameState(BaseModel):
    """Who has the name, if anybody."""

    owner_id: str | None = None


class FolderName(Aggregate[NameState]):
    """The name of a folder. It changes in the same commit as the folder that has it."""

    State = NameState

    @property
    def owner_id(self) -> str | None:
        """The folder that has the name."""
        return self.state.owner_id

    def take(self, name: str, folder_id: str, *, at: datetime) -> bool:
        """Be the name of a folder; whether it is now, since no other one has it."""
        if self.state.owner_id is None:
            self.happened(FolderNameTaken, at=at, name=name, folder_id=folder_id)
        return self.state.owner_id == folder_id

    def free(self, name: str, folder_id: str, *, at: datetime) -> None:
        """Be nobody's name, if it was that of this folder."""
        if self.state.owner_id == folder_id:
            self.happened(FolderNameFreed, at=at, name=name, folder_id=folder_id)

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        match event:
            case FolderNameTaken():
                self.state.owner_id = event.folder_id
            case FolderNameFreed():
                self.state.owner_id = None


class FileName(Aggregate[NameState]):
    """The name of a file in its folder. It changes in the same commit as the file that has it."""

    State = NameState

    @property
    def owner_id(self) -> str | None:
        """The file that has the name."""
        return self.state.owner_id

    def take(self, name: str, file_id: str, *, at: datetime) -> bool:
        """Be the name of a file; whether it is now, since no other one has it."""
        if self.state.owner_id is None:
            self.happened(FileNameTaken, at=at, name=name, file_id=file_id)
        return self.state.owner_id == file_id

    def free(self, name: str, file_id: str, *, at: datetime) -> None:
        """Be nobody's name, if it was that of this file."""
        if self.state.owner_id == file_id:
            self.happened(FileNameFreed, at=at, name=name, file_id=file_id)

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        match event:
            case FileNameTaken():
                self.state.owner_id = event.file_id
            case FileNameFreed():
                self.state.owner_id = None
