"""Runs inside of the sandbox: reads, writes and lists files of the agent's workspace.

What leads out of the workspace is refused here, so that a model learns why; what keeps it from
other files is the sandbox. Nothing of Heeler can be imported here.
"""

from __future__ import annotations

import os
import stat

WORKSPACE = "/workspace"
LINES_MAX = 2_000
READ_BYTES_MAX = 256 << 10
LISTED_MAX = 1_000


def place_of(path: str) -> str:
    """Where a file is, links followed. Raises ValueError for what is outside of the workspace."""
    if "\0" in path:
        raise ValueError("a path holds no NUL")
    root = os.path.realpath(WORKSPACE)
    place = os.path.realpath(os.path.join(root, path))
    if place != root and not place.startswith(root + os.sep):
        raise ValueError(f"{path} is outside of {WORKSPACE}")
    return place


def shown_path(place: str) -> str:
    """The path relative to the workspace, as the model knows it."""
    return os.path.relpath(place, os.path.realpath(WORKSPACE))


def read_file(path: str, offset: int = 1, limit: int = LINES_MAX) -> str:
    """Lines of a text file."""
    place = place_of(path)
    if not stat.S_ISREG(os.stat(place).st_mode):
        raise ValueError(f"{path} is no file: list_files shows what is in a folder")
    first, count = max(offset, 1), min(max(limit, 1), LINES_MAX)
    lines: list[str] = []
    size = number = 0
    with open(place, encoding="utf-8") as file:
        try:
            for number, line in enumerate(file, 1):
                size += len(line) if number >= first else 0
                if number >= first + count or size > READ_BYTES_MAX:
                    lines.append(f"... (more from line {number} on)")
                    break
                if number >= first:
                    lines.append(line)
        except UnicodeDecodeError:
            raise ValueError(f"{path} is no text in UTF-8") from None
    if not lines:
        return f"({path} is empty)" if number == 0 else f"({path} has only {number} lines)"
    return "".join(lines)


def write_file(path: str, content: str, append: bool = False) -> str:
    """Write a file, and say how long it is."""
    place = place_of(path)
    os.makedirs(os.path.dirname(place), exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    file = os.open(place, flags | (os.O_APPEND if append else os.O_TRUNC), 0o644)
    with os.fdopen(file, "w", encoding="utf-8", newline="") as opened:
        opened.write(content)
    return f"{shown_path(place)} has {os.stat(place).st_size} bytes now."


def list_files(path: str = "", recursive: bool = False) -> str:
    """The files and folders in a folder, one a line; folders end with a slash."""
    place = place_of(path)
    if not os.path.isdir(place):
        raise ValueError(f"{path} is no folder")
    lines: list[str] = []
    for folder, folders, names in os.walk(place):
        folders.sort()
        lines += [f"{shown_path(os.path.join(folder, name))}/" for name in folders]
        for name in sorted(names):
            one = os.path.join(folder, name)
            lines.append(f"{shown_path(one)} ({os.lstat(one).st_size} bytes)")
        if not recursive or len(lines) > LISTED_MAX:
            break
    if len(lines) > LISTED_MAX:
        lines[LISTED_MAX:] = [f"... (only the first {LISTED_MAX} are listed)"]
    return "\n".join(lines) or "(nothing)"
