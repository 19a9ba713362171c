"""Scenario files among other files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

FILE_BYTES_MAX = 4 << 20
SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__"})
MARK = re.compile(r"^\s*\[\s*scenario\s*\]", re.MULTILINE)


def found_in(paths: Sequence[Path]) -> Iterator[Path]:
    """The scenario files among these files and in these folders, sorted, each once."""
    seen: set[Path] = set()
    for path in paths:
        for file in [path] if path.is_file() else sorted(_files_of(path)):
            if file.resolve() not in seen:
                seen.add(file.resolve())
                yield file


def _files_of(folder: Path) -> Iterator[Path]:
    for parent, folders, names in folder.walk():
        folders[:] = sorted(
            name for name in folders if name[0] != "." and name not in SKIPPED_FOLDERS
        )
        for name in names:
            file = parent / name
            if file.suffix == ".toml" and is_scenario(file):
                yield file


def is_scenario(file: Path) -> bool:
    """Whether a TOML file has the table `[scenario]`."""
    try:
        return file.stat().st_size <= FILE_BYTES_MAX and bool(MARK.search(file.read_text()))
    except (OSError, UnicodeDecodeError):
        return False
