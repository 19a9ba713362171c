"""The files of agents as V1's memory has them, each a block: a statement leaves a place for the
blocks of an agent that has folders, and they are put there afterwards."""

from __future__ import annotations

import re
from typing import Any

from pydantic_core import to_json

from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.blocks import BlockState, block_state
from libs.contracts.open_file_rendering import FILE_VIEW_CHARS_MOST
from services.api.adapters.agent_folder_queries import AgentFolderQueries

# Around a place. No JSON has this character as it is, so nothing that a client wrote is one.
MARK = b"\x02"
MARKED = re.compile(rb"\x02([^\x02 ]+) (\d+)\x02")
# The SQL expression of the place of an agent `v`, which says how much the agent sees of a file.
PLACE = (
    f"chr({MARK[0]}) || v.id || ' ' || least((('{{' || v.body || '}}')::json"
    f"->>'per_file_view_window_char_limit')::int, {FILE_VIEW_CHARS_MOST}) || chr({MARK[0]})"
)
# What the values of all blocks of one answer may have together.
VALUES_CHARS_MAX = 8 << 20
NOT_SHOWN = "[Not shown: the files of this list are too long together; retrieve one agent instead]"


async def with_file_blocks(queries: AgentFolderQueries, org: str, document: bytes) -> bytes:
    """A document in which each agent that has a place for file blocks has them."""
    chars_max = {found[1].decode(): int(found[2]) for found in MARKED.finditer(document)}
    blocks: dict[str, list[JsonObject]] = {agent_id: [] for agent_id in chars_max}
    values = FileValues(queries, org)
    for agent_id, file in await queries.files_of_agents(org, [*chars_max]):
        limit = chars_max[agent_id]
        value = await values.of(file, limit) if file["is_open"] else ""
        blocks[agent_id].append(file_block(file, value, limit))
    return MARKED.sub(lambda found: to_json(blocks[found[1].decode()]), document)


class FileValues:
    """What agents see of open files, each looked up once, as much as one answer has room for."""

    def __init__(self, queries: AgentFolderQueries, org: str) -> None:
        self.queries = queries
        self.org = org
        self.room = VALUES_CHARS_MAX
        self.known: dict[tuple[Any, ...], str] = {}

    async def of(self, file: dict[str, Any], chars_max: int) -> str:
        """What an agent sees of a file."""
        key = (file["file_id"], file["start_line"], file["end_line"], chars_max)
        if key not in self.known:
            if self.room <= 0:
                return NOT_SHOWN
            self.known[key] = await self.queries.visible_content(self.org, file, chars_max)
        self.room -= len(self.known[key])
        return self.known[key]


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
