"""The tools for the files of an agent's folders: open them, and find lines and passages in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field

from libs.bus.fair_semaphore import NoPlace
from libs.bus.ports import Bus
from libs.contracts.bus_messages import Rejected
from libs.contracts.memory.agent_folders import FileView, OpenFiles
from libs.contracts.memory.archives import (
    EMBEDDING_SECONDS_MAX,
    FoundPassage,
    FoundPassages,
    SearchPassages,
)
from libs.work.limited_processes import LimitedProcesses, LimitReached
from services.agent.adapters.file_regex_search import (
    CONTEXT_LINES_MAX,
    FILES_SEARCHED_MAX,
    BadPattern,
    FileSearch,
    Found,
    expression,
    search_files,
)
from services.agent.adapters.folder_queries import FolderQueries
from services.agent.adapters.tool_owner_port import Calling, Runner, error, send_command
from services.agent.domain.agents.attached_folders import AttachedFile, limits_of
from services.agent.domain.runs.step_results import ToolResult

MATCHES_SHOWN = 20
PASSAGES_MAX = 50
PASSAGE_LINES_MAX = 20
NAMES_SHOWN_MAX = 50
QUERY_CHARS_MAX = 2_000
NO_FILES = "You have no files: none of your folders has one."


def one_or_many(value: object) -> object:
    """Models give one file where a list is asked for."""
    return [value] if isinstance(value, dict) else value


class FileRequest(BaseModel):
    """A file, and which of its lines; `offset` counts from 0."""

    file_name: str
    offset: Annotated[int | None, Field(ge=0)] = None
    length: Annotated[int | None, Field(ge=1)] = None


class OpenFilesArguments(BaseModel):
    """Arguments of `open_files`."""

    file_requests: Annotated[
        list[FileRequest], BeforeValidator(one_or_many), Field(min_length=1, max_length=100)
    ]
    close_all_others: bool = False


class GrepFiles(BaseModel):
    """Arguments of `grep_files`."""

    pattern: str
    include: str | None = None
    context_lines: int | None = 1
    offset: int | None = None


class SemanticSearchFiles(BaseModel):
    """Arguments of `semantic_search_files`."""

    query: Annotated[str, Field(max_length=QUERY_CHARS_MAX)]
    limit: int | None = 5


class FileTools:
    """Carries out their calls."""

    def __init__(self, bus: Bus, queries: FolderQueries) -> None:
        self.send = partial(send_command, bus, seconds_max=EMBEDDING_SECONDS_MAX)
        self.queries = queries
        self.processes = LimitedProcesses(search_files.__module__)
        self.runners: Mapping[str, Runner] = {
            "open_files": self.open_files,
            "grep_files": self.grep_files,
            "semantic_search_files": self.semantic_search_files,
        }

    async def open_files(self, calling: Calling) -> ToolResult:
        """Show files to the agent, in its system prompt from the next step on."""
        asked = OpenFilesArguments.model_validate_json(calling.call.arguments)
        by_name = {request.file_name: request for request in asked.file_requests}
        files = await self.find_files(calling, [*by_name])
        if isinstance(files, ToolResult):
            return files
        views = []
        for file in files:
            view = view_of(file, by_name[file.name])
            if isinstance(view, str):
                return error(view)
            views.append(view)
        files_max, _ = limits_of(calling.design.config)
        command = OpenFiles(
            agent_id=calling.design.config.id,
            files=views,
            files_max=files_max,
            close_others=asked.close_all_others,
        )
        reply = await self.send(calling, command)
        if isinstance(reply, Rejected):
            return error(reply.reason)
        words = await self.describe_opened(calling, files, views, reply.result)
        return ToolResult("success", words)

    async def find_files(
        self, calling: Calling, names: list[str]
    ) -> list[AttachedFile] | ToolResult:
        """The agent's files of these names in this order, or the error if a name is unknown."""
        org, agent_id = calling.context.org, calling.design.config.id
        found = await self.queries.files_named(org, agent_id, names)
        by_name = {file.name: file for file in reversed(found)}
        unknown = [name for name in names if name not in by_name]
        if not unknown:
            return [by_name[name] for name in names]
        files = await self.queries.files_of_agent(org, agent_id, NAMES_SHOWN_MAX)
        if not files:
            return error(NO_FILES)
        listed = ", ".join(file.name for file in files)
        return error(f"You have no file named '{unknown[0][:200]}'. Yours are: {listed}")

    async def describe_opened(
        self, calling: Calling, files: list[AttachedFile], views: list[FileView], result: Any
    ) -> str:
        """The result text: the files that were opened, and those that were closed for them."""
        listed = ", ".join(place(*opened) for opened in zip(files, views, strict=True))
        words = f"Opened {listed}"
        closed = {*result["closed"]}
        if closed:
            org, agent_id = calling.context.org, calling.design.config.id
            known = await self.queries.files_of_agent(org, agent_id, FILES_SEARCHED_MAX)
            names = [file.name for file in known if file.id in closed]
            words += f"\nClosed {len(closed)} to make room, or as you asked: {', '.join(names)}"
        return words

    async def grep_files(self, calling: Calling) -> ToolResult:
        """Find lines of the agent's files by an expression, a page at a time."""
        asked = GrepFiles.model_validate_json(calling.call.arguments)
        if not asked.pattern.strip():
            return error("`pattern` is empty: give a word or a regular expression.")
        try:
            expression(asked.pattern.strip())
        except BadPattern as problem:
            return error(f"`pattern` cannot be used: {problem}")
        org, agent_id = calling.context.org, calling.design.config.id
        files = await self.queries.files_of_agent(org, agent_id, FILES_SEARCHED_MAX + 1)
        if not files:
            return ToolResult("success", NO_FILES)
        around = min(max(asked.context_lines or 0, 0), CONTEXT_LINES_MAX)
        wanted = FileSearch(asked.pattern.strip(), (asked.include or "").strip(), around)
        try:
            found = await search_files(self.queries, self.processes, org, files, wanted)
        except BadPattern as problem:
            return error(f"`include` cannot be used: {problem}")
        except LimitReached as reached:
            return error(f"`pattern` or `include` is too slow to be looked for: {reached}")
        except NoPlace as full:
            return error(full.reason)
        return ToolResult("success", matches_page(asked, found, max(asked.offset or 0, 0)))

    async def semantic_search_files(self, calling: Calling) -> ToolResult:
        """Find passages of the agent's files by their meaning and words."""
        asked = SemanticSearchFiles.model_validate_json(calling.call.arguments)
        if not asked.query.strip():
            return error("`query` is empty: say what you are looking for.")
        org, agent_id = calling.context.org, calling.design.config.id
        folders = await self.queries.folder_ids(org, agent_id)
        if not folders:
            return ToolResult("success", NO_FILES)
        command = SearchPassages(
            asker=agent_id,
            query=asked.query.strip(),
            collection_ids=folders,
            limit=min(max(5 if asked.limit is None else asked.limit, 1), PASSAGES_MAX),
        )
        reply = await self.send(calling, command)
        if isinstance(reply, Rejected):
            return error(reply.reason)
        passages = FoundPassages.model_validate(reply.result).passages
        if not passages:
            return ToolResult("success", f"No passage was found for '{asked.query.strip()}'.")
        names = Counter(str(found.fields["file_name"]) for found in passages)
        head = f"Found {len(passages)} passages in {len(names)} files:"
        shown = [passage(n, found) for n, found in enumerate(passages, start=1)]
        return ToolResult("success", "\n\n".join([head, *shown]))


def view_of(file: AttachedFile, asked: FileRequest) -> FileView | str:
    """The lines that are asked for, counted from 1, or what is wrong with that."""
    if file.lines is None:
        return f"'{file.name}' is not read yet, or cannot be. Try it later, or open another one."
    offset = asked.offset or 0
    if offset >= max(file.lines, 1):
        return f"'{file.name}' has {file.lines} lines: `offset` is at most {max(file.lines, 1) - 1}"
    if asked.offset is None and asked.length is None:
        return FileView(file_id=file.id)
    last = None if asked.length is None else min(offset + asked.length, file.lines)
    return FileView(file_id=file.id, first_line=offset + 1, last_line=last)


def place(file: AttachedFile, view: FileView) -> str:
    """A file that was opened, and which lines of it."""
    if view.first_line is None:
        return file.name
    last = "the end" if view.last_line is None else view.last_line
    return f"{file.name} (lines {view.first_line} to {last} of {file.lines})"


def matches_page(asked: GrepFiles, found: Found, offset: int) -> str:
    """The result text for lines that were found."""
    total = len(found.matches)
    if not total:
        where = f" in files as '{asked.include}'" if asked.include else ""
        some = " Not everything was searched: name fewer files by `include`." if found.cut else ""
        return f"No line fits '{asked.pattern}'{where}.{some}"
    page = found.matches[offset : offset + MATCHES_SHOWN]
    if not page:
        return f"There are {total} matches: `offset` is at most {total - 1}."
    files = Counter(match.file for match in found.matches)
    more = "+" if found.cut else ""
    lines = [
        f"Found {total}{more} matches in {len(files)} files "
        f"(showing {offset + 1} to {offset + len(page)}):",
        *(f"- {name}: {count}" for name, count in files.most_common(NAMES_SHOWN_MAX)),
    ]
    lines += [f"\n=== {match.file}:{match.line} ===\n{match.shown}" for match in page]
    end = offset + len(page)
    if end < total:
        lines.append(f"\nFor the next ones call it again with `offset` {end}.")
    elif found.cut:
        lines.append("\nNot everything was searched: name fewer files by `include`.")
    return "\n".join(lines)


def passage(number: int, found: FoundPassage) -> str:
    """A passage that was found, as the model sees it."""
    lines = str(found.fields["text"]).strip().split("\n")
    shown = [f"  {line}" for line in lines[:PASSAGE_LINES_MAX]]
    if len(lines) > PASSAGE_LINES_MAX:
        shown.append(f"  ... ({len(lines) - PASSAGE_LINES_MAX} more lines)")
    name = found.fields["file_name"]
    return "\n".join([f"=== {name} (passage #{number}, score {found.score:.3f}) ===", *shown])
