"""The folders that agents' programs share: one for each agent, on the machine of this process."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import stat
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from services.tools.adapters.folder_removal import remove_folder
from services.tools.sandbox.confinement import FIRST_UID
from services.tools.sandbox.ports import Workspace

log = logging.getLogger(__name__)

WORKSPACE_BYTES_MAX = 256 << 20
WORKSPACE_FILES_MAX = 10_000
FOLDERS_DEEP_MAX = 64
# A workspace is always the same user's, and no sandbox without one is that user.
FIRST_WORKSPACE_UID = FIRST_UID + 10_000
WORKSPACE_UIDS = 90_000_000
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")


class NoWorkspace(Exception):
    """There is none for whoever asks; the words say why."""


@dataclass(frozen=True, slots=True)
class Used:
    """The content of a workspace. Files are counted with folders and links; `deep`: there are
    folders below the depth that is read."""

    bytes: int
    files: int
    deep: bool = False

    def over(self, bytes_max: int, files_max: int, *, may_be_deep: bool = False) -> str:
        """Which bound it exceeds; empty if none."""
        if self.bytes > bytes_max:
            return f"its workspace holds more than {bytes_max >> 20} MiB"
        if self.files > files_max:
            return f"its workspace holds more than {files_max} files"
        if self.deep and not may_be_deep:
            return f"its workspace has more than {FOLDERS_DEEP_MAX} folders one in another"
        return ""


class AgentWorkspaces:
    """The workspaces of one machine, below one folder; without one there are none."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.own_users = (
            False  # each is a user's of its own, where sandboxes are users of their own
        )

    def prepare(self) -> None:
        """Make the folder of all of them. Whoever starts sandboxes has to see it there."""
        if self.root:
            try:
                make_passable(self.root)
            except OSError as problem:
                log.warning("There are no workspaces of agents: %s", problem)
                self.root = ""

    async def open(self, org: str, agent_id: str) -> Workspace:
        """The workspace of an agent, which is made if it is not there; raises NoWorkspace."""
        return await asyncio.to_thread(self.make_folder, org, agent_id)

    def make_folder(self, org: str, agent_id: str) -> Workspace:
        """Create the workspace if it is missing. Blocks: runs in a thread. Raises NoWorkspace."""
        path = self.path(org, agent_id)
        uid = uid_of(path) if self.own_users else None
        make_passable(self.root)
        make_passable(os.path.dirname(path))
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)
            if uid is not None:
                os.chown(path, uid, uid)
        return Workspace(path, uid)

    def path(self, org: str, agent_id: str) -> str:
        """Where the workspace of an agent is; raises NoWorkspace for who can have none."""
        if not self.root:
            raise NoWorkspace("this server has no folder for workspaces: set HEELER_WORKSPACES")
        if not agent_id:
            raise NoWorkspace("only an agent has a workspace: call the tool by an agent")
        if not (NAME.fullmatch(org) and NAME.fullmatch(agent_id)):
            raise NoWorkspace(f"no workspace can be called {agent_id!r}")
        return os.path.join(self.root, org, agent_id)

    async def usage(self, workspace: Workspace) -> Used:
        """The files and bytes that a workspace holds now."""
        return await asyncio.to_thread(used_by, workspace.path)

    async def remove(self, org: str, agent_id: str) -> None:
        """Remove the workspace of an agent and all that is in it. Safe to repeat. Raises OSError
        for what cannot be removed now."""
        path = self.path(org, agent_id)
        await remove_folder(path)
        with suppress(OSError):
            os.rmdir(os.path.dirname(path))  # the last one of its organisation

    async def present(self) -> list[tuple[str, str]]:
        """Organisation and agent of each workspace that is here."""
        return await asyncio.to_thread(self.list_folders)

    def list_folders(self) -> list[tuple[str, str]]:
        """Organisation and agent of each workspace here. Blocks: runs in a thread."""
        if not self.root or not os.path.isdir(self.root):
            return []
        found = [path for path in Path(self.root).glob("*/*") if path.is_dir()]
        return [(path.parent.name, path.name) for path in found]


def make_passable(folder: str) -> None:
    """Make a folder that the user of a sandbox may pass through to its own, and see no other in."""
    with suppress(FileExistsError):
        os.makedirs(folder)
        os.chmod(folder, 0o711)


def uid_of(path: str) -> int:
    """The user of a workspace, always the same."""
    number = int.from_bytes(sha256(path.encode()).digest()[:8], "big")
    return FIRST_WORKSPACE_UID + number % WORKSPACE_UIDS


def used_by(path: str) -> Used:
    """The content of a folder; links are not followed, also if one takes the place of a folder
    while this looks. As soon as there are more files than may be no more are counted."""
    counted = Counted()
    with suppress(OSError):
        counted.look_into(os.open(path, FOLDER), depth=1)
    return Used(counted.bytes, counted.files, counted.deep)


@dataclass(slots=True)
class Counted:
    """The counts so far."""

    bytes: int = 0
    files: int = 0
    deep: bool = False

    def look_into(self, folder: int, depth: int) -> None:
        """Count what is in an open folder, which is closed then."""
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    self.files += 1
                    if self.files > 2 * WORKSPACE_FILES_MAX:
                        return
                    with suppress(OSError):
                        self.count(entry.name, folder, depth)
        finally:
            os.close(folder)

    def count(self, name: str, folder: int, depth: int) -> None:
        """Count one file, or what is in one folder."""
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISDIR(found.st_mode):
            self.bytes += min(found.st_blocks * 512, max(found.st_size, 4_096))
        elif depth == FOLDERS_DEEP_MAX:
            self.deep = True
        else:
            self.look_into(os.open(name, FOLDER, dir_fd=folder), depth + 1)
