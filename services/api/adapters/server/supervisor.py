"""The supervisor of this process: what it says of the configuration, and how it is asked to load it
anew. In a container there is none."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from libs.contracts.bus_messages import JsonObject

POLL_SECONDS = 0.05
CHECKED_SECONDS_MAX = 60.0
CHECKING = "checking"


class NoSupervisor(Exception):
    """Nobody supervises this process, or not by the file that was named."""


class Supervisor:
    """Reads the file in which the supervisor says what it does, and sends it a signal."""

    def __init__(self, file: str, parent: Callable[[], int] = os.getppid) -> None:
        self._file = Path(file) if file else None
        self._parent = parent

    def configuration(self) -> JsonObject:
        """The configuration that holds, and the attempts to load it anew. Raises NoSupervisor."""
        document, _ = self._read()
        return document

    async def reload(self) -> JsonObject:
        """Ask for the configuration to be loaded anew; returns the same document when it is
        refused, or applied, or being applied. Raises NoSupervisor."""
        before, pid = self._read()
        os.kill(pid, signal.SIGHUP)
        async with asyncio.timeout(CHECKED_SECONDS_MAX):
            while True:
                now, _ = self._read()
                begun = number(now) > number(before)
                if begun and latest(now)["status"] != CHECKING:
                    return now
                await asyncio.sleep(POLL_SECONDS)

    def _read(self) -> tuple[JsonObject, int]:
        """Only one's parent is sent a signal: the number of another process may stand there."""
        if self._file is None:
            raise NoSupervisor
        try:
            document: dict[str, Any] = json.loads(self._file.read_bytes())
            pid = int(document.pop("supervisor"))
        except (OSError, ValueError, KeyError) as problem:
            raise NoSupervisor from problem
        if pid != self._parent() or pid <= 1:
            raise NoSupervisor
        return document, pid


def latest(document: JsonObject) -> dict[str, Any]:
    """The latest attempt; empty before the first."""
    reloads: Any = document["reloads"]
    return reloads[-1] if reloads else {}


def number(document: JsonObject) -> int:
    """The number of the latest attempt."""
    return int(latest(document).get("number", 0))
