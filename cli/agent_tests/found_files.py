"""Scenario files among other files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from libs.contracts.outside_texts import decode_text

FILE_BYTES_MAX = 4 << 20
SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__"})
MARK = re.compile(r"^[ \t]*\[[ \t]*scenario[ \t]*\]", re.MULTILINE)
# Files of other projects may have a table of that name, too: ours name the file of an agent, or say
# what is expected of a turn.
OWN_MARK = re.compile(
    r"""^[ \t]*(?:agent[ \t]*=[ \t]*["'][^"'\n]*\.toml["']|\[[ \t]*turns[ \t]*\.[ \t]*expect\b)""",
    re.MULTILINE,
)

# What each scenario has; a table `[scenario]` that names an agent may be of another project.
TURNS = re.compile(r"^[ \t]*(?:\[\[[ \t]*turns[ \t]*\]\]|turns[ \t]*=)", re.MULTILINE)


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
    """Whether a TOML file has the table `[scenario]` and is one of ours."""
    text = _text_of(file)
    return bool(MARK.search(text) and OWN_MARK.search(text))


def is_test(file: Path) -> bool:
    """Whether a file that nobody named as a scenario is one: something is said to the agent."""
    return is_scenario(file) and bool(TURNS.search(_text_of(file)))


def has_scenario_table(file: Path) -> bool:
    """Whether a TOML file has a table `[scenario]`, of this or another project: it is no agent."""
    return bool(MARK.search(_text_of(file)))


def _text_of(file: Path) -> str:
    """The text of a file; empty where it cannot be read, or is too large."""
    try:
        return decode_text(file.read_bytes()) if file.stat().st_size <= FILE_BYTES_MAX else ""
    except (OSError, UnicodeDecodeError):
        return ""
