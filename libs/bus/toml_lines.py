"""On which lines of a TOML text its keys stand, which `tomllib` does not say."""

from __future__ import annotations

import re
from collections.abc import Mapping

from libs.contracts.outside_texts import lines_of

TABLE = re.compile(r"\s*\[\[?\s*([^\]]+?)\s*\]\]?\s*(#.*)?")
NAME = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
ENTRY = re.compile(rf"\s*({NAME}(?:\s*\.\s*{NAME})*)\s*=")
PART = re.compile(NAME)
FENCES = ('"""', "'''")

type Path = tuple[str, ...]


def key_lines(text: str) -> Mapping[Path, int]:
    """The line of each table and key that begins a line, by its path; the first is 1."""
    found: dict[Path, int] = {}
    table: Path = ()
    fence = ""  # of a text over several lines, in which nothing is a key
    for number, line in enumerate(lines_of(text), 1):
        if not fence:
            if header := TABLE.fullmatch(line):
                table = path_of(header[1])
                found.setdefault(table, number)
            elif entry := ENTRY.match(line):
                found.setdefault(table + path_of(entry[1]), number)
        for mark in FENCES:
            if fence in ("", mark) and line.count(mark) % 2:
                fence = "" if fence else mark
    return found


def path_of(dotted: str) -> Path:
    """The parts of a dotted key, without their quotes."""
    return tuple(part.strip("\"'") for part in PART.findall(dotted))


def line_of(lines: Mapping[Path, int], path: Path) -> int:
    """The line of a key, or of the innermost table that is known to hold it; else 1."""
    for end in range(len(path), 0, -1):
        if path[:end] in lines:
            return lines[path[:end]]
    return 1
