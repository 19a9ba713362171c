"""The folders with installed packages: one for each set of them, on the machine of this process."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

from services.tools.adapters.agent_workspaces import make_passable
from services.tools.adapters.folder_removal import remove_folder
from services.tools.adapters.package_installer import size_of

log = logging.getLogger(__name__)

COMPLETE = ".complete.json"  # how many files and bytes there are
NEW = ".new-"
# No call takes so long: what was used since then is in use.
IDLE_SECONDS_MIN = 900.0
ABANDONED_SECONDS = 3_600.0


class NoRoom(Exception):
    """All that is there is in use, and nothing more may be kept."""


class PackageFolders:
    """Installed packages below a folder, up to a bound; the longest unused go first."""

    def __init__(self, root: str, bytes_max: int) -> None:
        self.root = root
        self.bytes_max = bytes_max
        self.known: set[str] = set()  # that are whole

    def prepare(self) -> None:
        """Make the folder of all of them. Whoever starts sandboxes has to see it there."""
        if self.root:
            try:
                make_passable(self.root)
            except OSError as problem:
                log.warning("No packages can be installed for tools: %s", problem)
                self.root = ""

    def path(self, key: str) -> str:
        """Where the packages of a key are."""
        return os.path.join(self.root, key)

    async def ready(self, key: str) -> str | None:
        """The folder of a key, if it is whole; one that is not is removed."""
        path = self.path(key)
        if await asyncio.to_thread(self.is_whole, key):
            return path
        self.known.discard(key)
        if await asyncio.to_thread(os.path.lexists, path):
            log.warning("The packages at %s are not as they were installed: removed", path)
            await remove_folder(path)
        return None

    def is_whole(self, key: str) -> bool:
        """Whether all is there that was installed; looked at in full once by each process."""
        mark = Path(self.path(key), COMPLETE)
        try:
            recorded = json.loads(mark.read_text())
            os.utime(mark)
        except (OSError, ValueError):
            return False
        if key not in self.known:
            files, size = size_of(self.path(key))
            if [files - 1, size - mark.stat().st_size] != recorded:
                return False
            self.known.add(key)
        return True

    def new(self) -> str:
        """A folder to install into."""
        return os.path.join(self.root, f"{NEW}{token_hex(8)}")

    async def keep(self, new: str, key: str) -> str:
        """Have what was installed under its key, and what is too much removed. Raises NoRoom."""
        held = await asyncio.to_thread(size_of, new)
        await self.make_room(held[1])
        await asyncio.to_thread(self.name, new, key, held)
        self.known.add(key)
        return self.path(key)

    def name(self, new: str, key: str, held: tuple[int, int]) -> None:
        """Mark what was installed as whole, and have it under its key."""
        Path(new, COMPLETE).write_text(json.dumps(held))
        with suppress(OSError):  # another process was quicker
            os.rename(new, self.path(key))

    async def make_room(self, size: int) -> None:
        """Remove what was not used for longest until there is room. Raises NoRoom."""
        held = await asyncio.to_thread(self.held_environments)
        total = sum(bytes_ for _, bytes_, _ in held) + size
        for used_at, bytes_, path in sorted(held):
            if total <= self.bytes_max:
                return
            if time.time() - used_at < IDLE_SECONDS_MIN:
                break
            self.known.discard(os.path.basename(path))
            await remove_folder(path)
            total -= bytes_
        if total > self.bytes_max:
            raise NoRoom

    def held_environments(self) -> list[tuple[float, int, str]]:
        """The last use, the bytes and the folder of each complete environment."""
        found = []
        for mark in Path(self.root).glob(f"*/{COMPLETE}"):
            with suppress(OSError, ValueError):
                size = int(json.loads(mark.read_text())[1])
                found.append((mark.stat().st_mtime, size, str(mark.parent)))
        return found

    async def discard(self, new: str) -> None:
        """Remove what an installation has left."""
        for path in (new, f"{new}.tmp"):
            await remove_folder(path)

    async def remove_abandoned(self) -> None:
        """Remove what died processes have left half installed."""
        for path in await asyncio.to_thread(self.abandoned_folders) if self.root else []:
            with suppress(OSError):
                await remove_folder(path)

    def abandoned_folders(self) -> list[str]:
        """Folders of unfinished installations that have not been written to for long."""
        old = time.time() - ABANDONED_SECONDS
        found = Path(self.root).glob(f"{NEW}*")
        return [str(path) for path in found if path.stat().st_mtime < old]
