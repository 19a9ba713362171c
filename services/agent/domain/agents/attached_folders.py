"""The folders that an agent sees, as its system prompt shows them: the names of their files, and
the lines of those that are open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from libs.contracts.letta.agent_state import AgentConfig, file_limits
from libs.contracts.memory.open_file_rendering import FILE_VIEW_CHARS_MOST, visible_lines
from libs.contracts.prompt_escaping import escape_tags, quote_label
from libs.contracts.tools.base_tools.file_tools import FILE_TOOLS

FILE_TOOL_NAMES = frozenset(tool.name for tool in FILE_TOOLS)


@dataclass(frozen=True, slots=True)
class AttachedFile:
    """A file of a folder; `lines` is how many it has, None as long as nobody has read it. Of one
    that is open, `text` begins in line `first_line`, and ends with `last_line` if that is known."""

    id: str
    folder_id: str
    name: str
    lines: int | None
    is_open: bool = False
    first_line: int | None = None
    last_line: int | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class AttachedFolder:
    """A folder that an agent sees, with as many of its files as are listed."""

    id: str
    name: str
    description: str | None
    instructions: str | None
    files: Sequence[AttachedFile] = ()
    unlisted: int = 0


def limits_of(config: AgentConfig) -> tuple[int, int]:
    """The number of files that an agent may have open, and of characters that it sees of each."""
    files, chars = file_limits(config.llm_config.context_window)
    asked_files, asked_chars = config.max_files_open, config.per_file_view_window_char_limit
    return (
        files if asked_files is None else asked_files,
        min(chars if asked_chars is None else asked_chars, FILE_VIEW_CHARS_MOST),
    )


def rendered_directories(folders: Sequence[AttachedFolder], config: AgentConfig) -> str:
    """The section of a system prompt about folders; empty without any."""
    if not folders:
        return ""
    files_max, chars_max = limits_of(config)
    is_open = sum(file.is_open for folder in folders for file in folder.files)
    lines = [
        "<directories>",
        "<file_limits>",
        f"- current_files_open={is_open}",
        f"- max_files_open={files_max}",
        "</file_limits>",
    ]
    for folder in folders:
        lines += rendered_folder(folder, chars_max)
    return "\n".join([*lines, "</directories>"])


def rendered_folder(folder: AttachedFolder, chars_max: int) -> list[str]:
    """The lines about one folder."""
    lines = [f'<directory name="{quote_label(folder.name)}">']
    if folder.description:
        lines.append(f"<description>{escape_tags(folder.description)}</description>")
    if folder.instructions:
        lines.append(f"<instructions>{escape_tags(folder.instructions)}</instructions>")
    for file in folder.files:
        lines += rendered_file(file, chars_max)
    if folder.unlisted:
        lines.append(f"(and {folder.unlisted} more files, which the file tools find by their text)")
    return [*lines, "</directory>"]


def rendered_file(file: AttachedFile, chars_max: int) -> list[str]:
    """The lines about one file."""
    value = ""
    if file.is_open:
        value = visible_lines(file.text, file.lines, file.first_line, file.last_line, chars_max)
    return [
        f'<file status="{"open" if file.is_open else "closed"}" name="{quote_label(file.name)}">',
        "<metadata>",
        "- read_only=true",
        f"- chars_current={len(value)}",
        f"- chars_limit={chars_max}",
        "</metadata>",
        *(["<value>", escape_tags(value), "</value>"] if file.is_open else []),
        "</file>",
    ]
