"""The files of agents as V1's memory has them, each a block: a statement leaves a place for the
blocks of an agent that has folders, and they are put there afterwards."""

from __future__ import annotations

import re
from itertools import batched
from typing import Any

from pydantic_core import to_json

from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.blocks import BlockState, block_state
from libs.contracts.memory.open_file_rendering import FILE_VIEW_CHARS_MOST
from services.api.adapters.memory.agent_folder_queries import AgentFolderQueries

# Around a place. No JSON has this character as it is, so nothing that a client wrote is one.
MARK = b"\x02"
MARKED = re.compile(rb"\x02([^\x02 ]+) (\d+)\x02")
# The SQL expression of the place of an agent `v`, which says how much the agent sees of a file.
PLACE = (
    f"chr({MARK[0]}) || v.id || ' ' || least(v.file_chars_max, {FILE_VIEW_CHARS_MOST})"
    f" || chr({MARK[0]})"
)
# What the values of all blocks of one answer may have together.
VALUES_CHARS_MAX = 8 << 20
FILES_AT_ONCE_MAX = 100
NOT_SHOWN = "[Not shown: the files of this list are too long together; retrieve one agent instead]"


async def with_file_blocks(queries: AgentFolderQueries, org: str, document: bytes) -> bytes:
    """A document in which each agent that has a place for file blocks has them."""
    chars_max = {found[1].decode(): int(found[2]) for found in MARKED.finditer(document)}
    blocks: dict[str, list[JsonObject]] = {agent_id: [] for agent_id in chars_max}
    files = await queries.files_of_agents(org, [*chars_max]) if chars_max else []
    values = FileValues(queries, org)
    at_once = files_at_once(max(chars_max.values(), default=0))
    for some in batched(files, at_once):
        opened = [(file, chars_max[agent_id]) for agent_id, file in some if file["is_open"]]
        await values.look_up(opened)
        for agent_id, file in some:
            limit = chars_max[agent_id]
            value = values.of(file, limit) if file["is_open"] else ""
            blocks[agent_id].append(file_block(file, value, limit))
    return MARKED.sub(lambda found: to_json(blocks[found[1].decode()]), document)


def files_at_once(chars_max: int) -> int:
    """Of how many files one statement reads what is seen, if that is so much of each."""
    return min(FILES_AT_ONCE_MAX, max(1, VALUES_CHARS_MAX // max(1, chars_max)))


class FileValues:
    """Shown parts of open files, each looked up once, as far as one answer has room."""

    def __init__(self, queries: AgentFolderQueries, org: str) -> None:
        self.queries = queries
        self.org = org
        self.room = VALUES_CHARS_MAX
        self.known: dict[tuple[Any, ...], str] = {}

    async def look_up(self, opened: list[tuple[dict[str, Any], int]]) -> None:
        """Read of these files, each with how much is seen of it, what is not known."""
        wanted = {seen_part(*file): file for file in opened if seen_part(*file) not in self.known}
        if wanted and self.room > 0:
            contents = await self.queries.visible_contents(self.org, [*wanted.values()])
            self.known |= zip(wanted, contents, strict=True)

    def of(self, file: dict[str, Any], chars_max: int) -> str:
        """The shown part of a file that was looked up."""
        if self.room <= 0:
            return NOT_SHOWN
        value = self.known[seen_part(file, chars_max)]
        self.room -= len(value)
        return value


def seen_part(file: dict[str, Any], chars_max: int) -> tuple[Any, ...]:
    """A key of the shown part of a file: agents with the same key see the same."""
    return (file["file_id"], file["start_line"], file["end_line"], chars_max)


def file_block(file: dict[str, Any], value: str, chars_max: int) -> JsonObject:
    """A file as a block of an agent that sees it."""
    block = BlockState(
        id=f"block-{file['file_id'].removeprefix('file-')}",
        label=file["name"],
        value=value,
        limit=chars_max,
        read_only=True,
    )
    return {
        **block_state(block),
        "file_id": file["file_id"],
        "source_id": file["folder_id"],
        "is_open": file["is_open"],
        "last_accessed_at": file["last_accessed_at"],
    }
