"""Lines of files that fit a regular expression. Expressions are RE2's, whose time grows with the
length of a text and never explodes (ADR 46). How fast it grows is their writer's choice: texts are
searched in processes of their own."""

from __future__ import annotations

import fnmatch
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import re2

from libs.work.fork_server import ProcessLimits
from libs.work.limited_processes import LimitedProcesses
from services.agent.adapters.folder_queries import FolderQueries
from services.agent.domain.agents.attached_folders import AttachedFile

PATTERN_CHARS_MAX = 1_000
PATTERN_BYTES_MAX = 8 << 20  # what a compiled expression may take
FILES_SEARCHED_MAX = 1_000
TEXT_CHARS_MAX = 20_000_000  # of one call
MATCHES_MAX = 1_000
SEGMENTS_AT_ONCE = 16
LOOKED_AT_BYTES = 8 * 1024  # from a line on, or its end
LINE_CHARS_MAX = 500
SEARCH_LIMITS = ProcessLimits(processor_seconds_max=2)  # of the segments at once, 1 MiB
CONTEXT_LINES_MAX = 20


class BadPattern(Exception):
    """The expression cannot be used; the words are for the model."""


@dataclass(frozen=True, slots=True)
class Match:
    """A line that fits, with the lines around it."""

    file: str
    line: int
    shown: str


@dataclass(slots=True)
class Found:
    """The matches of a search so far, and the amount of text that it has read."""

    matches: list[Match] = field(default_factory=list)
    chars: int = 0
    files: int = 0
    cut: bool = False

    @property
    def full(self) -> bool:
        """Whether no more is looked for."""
        return len(self.matches) >= MATCHES_MAX or self.chars >= TEXT_CHARS_MAX


def expression(pattern: str) -> Any:
    """An expression, ready to search whole texts by their lines. Raises BadPattern."""
    if len(pattern) > PATTERN_CHARS_MAX:
        raise BadPattern(f"it has more than {PATTERN_CHARS_MAX} characters: look for less")
    options = re2.Options()
    options.max_mem = PATTERN_BYTES_MAX
    options.log_errors = False
    options.case_sensitive = False
    try:
        return re2.compile(f"(?m){pattern}", options)
    except re2.error as problem:
        reason = problem.args[0]
        words = reason.decode() if isinstance(reason, bytes) else str(reason)
        raise BadPattern(
            f"{words} (look-around and back-references are not known; put a backslash before"
            " characters as ( [ * ? that you mean as they are)"
        ) from None


def matching_files(files: Sequence[AttachedFile], include: str) -> list[AttachedFile]:
    """The files whose name matches a pattern such as *.md, or a regular expression; all files if it
    is empty. Raises BadPattern."""
    if not include:
        return [*files]
    if len(include) > PATTERN_CHARS_MAX:
        raise BadPattern(f"it has more than {PATTERN_CHARS_MAX} characters: name fewer files")
    if "*" in include and not set(include) & set("^$()[]{}\\+|"):
        name = include.casefold()
        return [
            file
            for file in files
            if fnmatch.fnmatchcase(file.name.casefold(), name)
            or fnmatch.fnmatchcase(file.name.rpartition("/")[2].casefold(), name)
        ]
    wanted = expression(include)
    return [file for file in files if wanted.search(file.name)]


@dataclass(frozen=True, slots=True)
class FileSearch:
    """A search: the pattern, the names of the files, and the lines of context."""

    pattern: str
    include: str = ""
    around: int = 0


async def search_files(
    queries: FolderQueries,
    processes: LimitedProcesses,
    org: str,
    files: Sequence[AttachedFile],
    asked: FileSearch,
) -> Found:
    """The lines of these files that an expression fits, up to what one call may look at. Texts are
    searched some segments at a time. Raises BadPattern, LimitReached and NoPlace."""
    if asked.include:
        files = await processes.run(
            matching_files, files, asked.include, org=org, limits=SEARCH_LIMITS
        )
    found = Found()
    for file in files[:FILES_SEARCHED_MAX]:
        after = -1
        while not found.full:
            segments = await queries.file_segments(
                org, file.id, first_line=1, after=after, segments=SEGMENTS_AT_ONCE
            )
            if not segments:
                break
            after = segments[-1][0]
            text = "".join(text for _, _, text in segments)
            found.chars += len(text)
            room = MATCHES_MAX - len(found.matches)
            found.matches += await processes.run(
                matches_of,
                *(file.name, text, segments[0][1], asked, room),
                org=org,
                limits=SEARCH_LIMITS,
            )
        if found.full:
            break
        found.files += 1
    found.cut = found.full or len(files) > FILES_SEARCHED_MAX
    return found


def matches_of(
    name: str, text: str, first_line: int, asked: FileSearch, matches_max: int
) -> list[Match]:
    """The lines of a text that an expression fits. Called in a process of its own."""
    wanted = expression(asked.pattern)
    return matches_in(name, text, first_line, wanted, asked.around, matches_max)


def matches_in(
    name: str, text: str, first_line: int, wanted: Any, around: int, matches_max: int
) -> list[Match]:
    """The lines of a text that an expression fits, each once. What fits more than two lines may
    not be found: from a line on, so many bytes are looked at, and then on from the last of these
    lines; else an expression that says `(?s).*` would look at the whole text from each line."""
    data = text.removesuffix("\n").encode()
    lines = data.split(b"\n")
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    matches: list[Match] = []
    place = 0
    while place < len(lines) and len(matches) < matches_max:
        end = bisect_left(starts, starts[place] + LOOKED_AT_BYTES, lo=place + 1, hi=len(lines))
        hit = wanted.search(data, starts[place], starts[end] - 1)
        if hit is not None:
            place = bisect_right(starts, hit.start(), hi=len(lines)) - 1
            matches.append(
                Match(name, first_line + place, lines_around(lines, place, first_line, around))
            )
            place += 1
        else:
            place = end if end == len(lines) else max(end - 1, place + 1)
    return matches


def lines_around(lines: list[bytes], place: int, first_line: int, around: int) -> str:
    """The matching line, marked, with the lines around it; each has its number."""
    span = range(max(place - around, 0), min(place + around + 1, len(lines)))
    return "\n".join(
        f"{'>' if n == place else ' '} {first_line + n}: {lines[n].decode()[:LINE_CHARS_MAX]}"
        for n in span
    )
