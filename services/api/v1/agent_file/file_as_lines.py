"""Agent files as the lines of an import: functions that are called in a process of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic_core import to_json

from libs.contracts.api.imports import LEFT_OUT_KEPT_MAX, EntryError
from services.api.v1.agent_file.agent_file_lines import agent_file_lines
from services.api.v1.agent_file.agent_file_reader import read_file
from services.api.v1.agent_file.entry_problems import LeftOut
from services.api.v1.agent_file.import_options import ImportOptions, PresentThings


@dataclass(frozen=True, slots=True)
class NamesInFile:
    """The names in a file, for a look at which of them exist."""

    tool_names: Sequence[str]
    folder_names: Sequence[str]
    mcp_server_names: Sequence[str]


def names_in(path: str) -> NamesInFile:
    """The names in the file at a path. Raises AgentFileInvalid."""
    with Path(path).open("rb") as source:
        file = read_file(source)
    return NamesInFile(file.tool_names, file.folder_names, file.mcp_server_names)


def write_lines(
    path: str, target: str, options: ImportOptions, present: PresentThings
) -> list[EntryError]:
    """Write the file at a path as lines into another one; returns the first entries that are left
    out. Raises AgentFileInvalid."""
    left_out: list[LeftOut] = []
    with Path(path).open("rb") as source, Path(target).open("wb") as lines:
        for line in agent_file_lines(read_file(source), options, present, left_out=left_out):
            lines.write(to_json(line) + b"\n")
    return [EntryError(entry=each.entry, message=each.why) for each in left_out[:LEFT_OUT_KEPT_MAX]]
