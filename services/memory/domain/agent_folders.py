"""Folders of an agent: those that it sees, and their open files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from pydantic import BaseModel

from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import CONFLICT, NOT_FOUND, UNPROCESSABLE, Event, Rejected
from libs.contracts.memory.agent_folders import (
    FOLDERS_ATTACHED_MAX,
    FilesClosed,
    FilesOpened,
    FileView,
    FolderAttached,
    FolderDetached,
    OpenedFile,
)


class AgentFoldersState(BaseModel):
    """The folders in the order in which they came; the open files, the one used last at the end."""

    folders: list[str] = []
    opened: dict[str, OpenedFile] = {}


class AgentFolders(Aggregate[AgentFoldersState]):
    """The folders of one agent."""

    State = AgentFoldersState

    def attach(self, agent_id: str, folder_id: str, *, at: datetime) -> Rejected | None:
        """See a folder; one that is seen already is not an event."""
        if folder_id in self.state.folders:
            return None
        if len(self.state.folders) >= FOLDERS_ATTACHED_MAX:
            reason = (
                f"Agent '{agent_id}' has {FOLDERS_ATTACHED_MAX} folders, the most that it may:"
                " detach one first"
            )
            return Rejected(code=CONFLICT, reason=reason)
        self.record(FolderAttached, at=at, agent_id=agent_id, folder_id=folder_id)
        return None

    def detach(self, agent_id: str, folder_id: str, *, at: datetime) -> Rejected | None:
        """See a folder no more."""
        if folder_id not in self.state.folders:
            reason = f"Folder with id '{folder_id}' is not attached to agent '{agent_id}'"
            return Rejected(code=NOT_FOUND, reason=reason)
        files = [file.file_id for file in self.state.opened.values() if file.folder_id == folder_id]
        self.record(FolderDetached, at=at, agent_id=agent_id, folder_id=folder_id, closed=files)
        return None

    def forget(self, agent_id: str, *, at: datetime) -> None:
        """See no folder any more."""
        for folder_id in [*self.state.folders]:
            self.detach(agent_id, folder_id, at=at)

    def open(
        self,
        agent_id: str,
        views: Sequence[FileView],
        folders: Mapping[str, str],
        *,
        files_max: int,
        close_others: bool = False,
        at: datetime,
    ) -> Rejected | None:
        """See files; `folders` says where each of those is that there are. Others are closed to
        make room."""
        wanted = {view.file_id: view for view in views}
        for file_id in wanted:
            if folders.get(file_id) not in self.state.folders:
                reason = f"File with id '{file_id}' is in no folder of agent '{agent_id}'"
                return Rejected(code=NOT_FOUND, reason=reason)
        if len(wanted) > files_max:
            reason = f"{len(wanted)} files are too many: at most {files_max} are open at a time"
            return Rejected(code=UNPROCESSABLE, reason=reason)
        others = [file_id for file_id in self.state.opened if file_id not in wanted]
        kept = 0 if close_others else max(files_max - len(wanted), 0)
        closed = others[: max(len(others) - kept, 0)]
        opened = [
            OpenedFile(**view.model_dump(), folder_id=folders[file_id], at=at)
            for file_id, view in wanted.items()
        ]
        self.record(FilesOpened, at=at, agent_id=agent_id, opened=opened, closed=closed)
        return None

    def show(
        self,
        agent_id: str,
        folder_id: str,
        file_ids: Sequence[str],
        *,
        files_max: int,
        at: datetime,
    ) -> None:
        """Have files of a folder open from their beginning, if the folder is seen and as far as
        files may be open at all."""
        fresh = [file_id for file_id in file_ids[:files_max] if file_id not in self.state.opened]
        if fresh and folder_id in self.state.folders:
            views = [FileView(file_id=file_id) for file_id in fresh]
            folders = dict.fromkeys(fresh, folder_id)
            self.open(agent_id, views, folders, files_max=files_max, at=at)

    def close(self, agent_id: str, file_ids: Sequence[str], *, at: datetime) -> None:
        """See files no more: these, or all without any."""
        asked = file_ids or [*self.state.opened]
        closed = [file_id for file_id in asked if file_id in self.state.opened]
        if closed:
            self.record(FilesClosed, at=at, agent_id=agent_id, closed=closed)

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        match event:
            case FolderAttached():
                self.state.folders = [*self.state.folders, event.folder_id]
            case FolderDetached():
                self.state.folders = [
                    other for other in self.state.folders if other != event.folder_id
                ]
                self.drop(event.closed)
            case FilesOpened():
                self.drop([*event.closed, *(file.file_id for file in event.opened)])
                self.state.opened |= {file.file_id: file for file in event.opened}
            case FilesClosed():
                self.drop(event.closed)

    def drop(self, file_ids: Sequence[str]) -> None:
        """Remove these files from the open ones."""
        gone = {*file_ids}
        self.state.opened = {id: file for id, file in self.state.opened.items() if id not in gone}
