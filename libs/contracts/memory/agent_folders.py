"""The language of the folders of agents: which an agent sees, and which of their files are open."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from libs.contracts.bus_messages import Command, Event, Value
from libs.contracts.deterministic_ids import derived_id

SERVICE = "memory"

FOLDERS_ATTACHED_MAX = 100


def agent_folders_id(agent_id: str) -> str:
    """The id of the aggregate that knows which folders an agent has."""
    return derived_id("agent_folders", agent_id)


class FileView(Value):
    """A file that is open, or lines of it: from `first_line` on, which is 1 for the beginning, to
    `last_line`, which is the end if it is left out."""

    file_id: str
    first_line: int | None = None
    last_line: int | None = None


class OpenedFile(FileView):
    """A file that is open since a moment, and the folder that it is in."""

    folder_id: str
    at: datetime


class AgentFoldersCommand(Command, service=SERVICE):
    """A command about the folders of an agent."""

    agent_id: str

    @property
    def target(self) -> str:
        return agent_folders_id(self.agent_id)


class AttachFolder(AgentFoldersCommand, topic="agent_folders.attach"):
    """Let an agent see a folder; as many of its files are opened as may be open (`files_max`), and
    others are closed to make room."""

    folder_id: str
    files_max: int = 0


class DetachFolder(AgentFoldersCommand, topic="agent_folders.detach"):
    """Let an agent see a folder no more; the result says how many it has `left`."""

    folder_id: str


class OpenFiles(AgentFoldersCommand, topic="agent_folders.open_files"):
    """Show files to an agent, or other lines of those that it sees.

    The others that are open are closed if so asked, else those used longest ago, until no more than
    `files_max` are open. The result has the ids of the files that were `closed`.
    """

    files: list[FileView]
    files_max: int
    close_others: bool = False


class CloseFiles(AgentFoldersCommand, topic="agent_folders.close_files"):
    """Show files to an agent no more: these, or all without any.

    The result has the ids of those that were `closed`.
    """

    file_ids: list[str] = Field(default_factory=list)


class ForgetFolders(AgentFoldersCommand, topic="agent_folders.forget"):
    """Let go of all folders of an agent that is gone."""


class AgentFoldersEvent(Event, service=SERVICE):
    """Something about the folders of an agent."""

    agent_id: str

    @property
    def about(self) -> str:
        return self.agent_id


class FolderAttached(AgentFoldersEvent, topic="agent_folders.attached"):
    """An agent sees a folder."""

    folder_id: str


class FolderDetached(AgentFoldersEvent, topic="agent_folders.detached"):
    """An agent sees a folder no more, nor the files in it."""

    folder_id: str
    closed: list[str] = Field(default_factory=list)


class FilesOpened(AgentFoldersEvent, topic="agent_folders.files_opened"):
    """An agent sees files, or other lines of them; others were closed to make room."""

    opened: list[OpenedFile]
    closed: list[str] = Field(default_factory=list)


class FilesClosed(AgentFoldersEvent, topic="agent_folders.files_closed"):
    """Files are not shown to an agent any more."""

    closed: list[str]
