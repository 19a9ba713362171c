"""An example of each message about the folders of agents."""

from __future__ import annotations

from typing import Any

from libs.contracts.bus_messages import Command, Event
from libs.contracts.memory.agent_folders import (
    AttachFolder,
    CloseFiles,
    DetachFolder,
    FilesClosed,
    FilesOpened,
    FileView,
    FolderAttached,
    FolderDetached,
    ForgetFolders,
    OpenedFile,
    OpenFiles,
    agent_folders_id,
)
from tests.contract.file_examples import AT, FILE, FOLDER

AGENT = "agent-11111111-1111-4111-8111-111111111111"
OTHER_FILE = "file-14141414-1414-4414-8414-141414141414"
OPENED = OpenedFile(file_id=FILE, first_line=11, last_line=20, folder_id=FOLDER, at=AT)


def of_agent(kind: type[Event], **fields: Any) -> Event:
    """An event about the folders of the agent."""
    return kind(
        originator_id=agent_folders_id(AGENT),
        originator_version=1,
        timestamp=AT,
        agent_id=AGENT,
        **fields,
    )


COMMANDS: list[Command] = [
    AttachFolder(agent_id=AGENT, folder_id=FOLDER, files_max=5),
    DetachFolder(agent_id=AGENT, folder_id=FOLDER),
    OpenFiles(
        agent_id=AGENT,
        files=[FileView(file_id=FILE, first_line=11, last_line=20)],
        files_max=5,
        close_others=True,
    ),
    CloseFiles(agent_id=AGENT, file_ids=[FILE]),
    ForgetFolders(agent_id=AGENT),
]
EVENTS: list[Event] = [
    of_agent(FolderAttached, folder_id=FOLDER),
    of_agent(FolderDetached, folder_id=FOLDER, closed=[FILE]),
    of_agent(FilesOpened, opened=[OPENED], closed=[OTHER_FILE]),
    of_agent(FilesClosed, closed=[FILE]),
]
SUBJECTS: dict[str, str] = {
    "AttachFolder": f"memory.command.agent_folders.attach.org-1.{agent_folders_id(AGENT)}",
    "DetachFolder": f"memory.command.agent_folders.detach.org-1.{agent_folders_id(AGENT)}",
    "OpenFiles": f"memory.command.agent_folders.open_files.org-1.{agent_folders_id(AGENT)}",
    "CloseFiles": f"memory.command.agent_folders.close_files.org-1.{agent_folders_id(AGENT)}",
    "ForgetFolders": f"memory.command.agent_folders.forget.org-1.{agent_folders_id(AGENT)}",
    "FolderAttached": f"memory.event.agent_folders.attached.org-1.{AGENT}",
    "FolderDetached": f"memory.event.agent_folders.detached.org-1.{AGENT}",
    "FilesOpened": f"memory.event.agent_folders.files_opened.org-1.{AGENT}",
    "FilesClosed": f"memory.event.agent_folders.files_closed.org-1.{AGENT}",
}
