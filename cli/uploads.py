"""A file that says how far it was read."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path


class ReportedFile(io.FileIO):
    """Read in pieces, while it is sent; `update` learns how many bytes were read."""

    def __init__(self, path: Path, update: Callable[[int], None]) -> None:
        super().__init__(path)
        self._update = update

    def read(self, size: int | None = -1, /) -> bytes:
        """The next bytes; empty at the end of the file."""
        read = super().read(-1 if size is None else size)
        self._update(self.tell())
        return read
