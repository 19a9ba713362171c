"""The files of an agent as V1's memory has them, each a block: the statement that makes the blocks,
and what is put into it afterwards, which is what the agent sees of a file that it has open."""

from __future__ import annotations

import re

from pydantic_core import to_json

from libs.contracts.letta.blocks import BlockState, block_state
from libs.contracts.open_file_rendering import FILE_VIEW_CHARS_MOST, FILES_LISTED_MAX
from services.api.adapters.agent_folder_queries import AgentFolderQueries

# Around the place of a value. No JSON has this character as it is, so nothing that a client wrote
# is taken for one.
MARK = "\x02"
MARKED = re.compile(rf"{MARK}([^{MARK} ]+) (\d*) (\d*) (\d*) (\d+){MARK}".encode())
# What the values of all blocks of one answer may have together.
VALUES_CHARS_MAX = 8 << 20
NOT_SHOWN = "[Not shown: the files of this list are too long together; retrieve one agent instead]"

UNSAID = {"value", "limit", "label", "id"}
SAME_OF_ALL = {
    name: value
    for name, value in block_state(BlockState(id="", value="", read_only=True)).items()
    if name not in UNSAID
}
PLACE = (
    f"chr({ord(MARK)}) || concat_ws(' ', f.id, coalesce(f.first_line::text, ''),"
    " coalesce(f.last_line::text, ''), coalesce(f.lines::text, ''), c.chars_max)"
    f" || chr({ord(MARK)})"
)
BLOCK = (
    f'\'{to_json(SAME_OF_ALL).decode()[:-1]}, "id": "block-\' || substr(f.id, 6)'
    ' || \'", "label": \' || to_json(f.name)::text || \', "limit": \' || c.chars_max'
    ' || \', "file_id": "\' || f.id || \'", "source_id": "\' || f.folder_id'
    ' || \'", "is_open": \' || f.is_open'
    " || ', \"last_accessed_at\": ' || coalesce(to_json(f.opened_at)::text, 'null')"
    f" || ', \"value\": ' || case when f.is_open then {PLACE} else '\"\"' end || '}}'"
)
# Of an agent `v` that has folders: as many files as its prompt lists, those that are open first.
FILE_BLOCKS = (
    f"(select '[' || coalesce(string_agg({BLOCK}, ', ' order by f.is_open desc, f.created_at,"
    " f.id), '') || ']' from (select least((('{' || v.body || '}')::json"
    f"->>'per_file_view_window_char_limit')::int, {FILE_VIEW_CHARS_MOST}) as chars_max offset 0) c"
    " cross join (select * from memory.agent_file_view a where a.agent_id = v.id"
    f" and a.org = v.org order by is_open desc, created_at, id limit {FILES_LISTED_MAX}) f)"
)


async def with_file_values(queries: AgentFolderQueries, org: str, document: bytes) -> bytes:
    """A document whose file blocks have their values."""
    if MARK.encode() not in document:
        return document
    values: dict[bytes, bytes] = {}
    room = VALUES_CHARS_MAX
    for found in MARKED.finditer(document):
        if found[0] in values:
            continue
        file_id, *view, chars_max = (one.decode() for one in found.groups())
        first, last, lines = (int(one) if one else None for one in view)
        file = {"file_id": file_id, "start_line": first, "end_line": last, "lines": lines}
        text = await queries.visible_content(org, file, int(chars_max)) if room > 0 else NOT_SHOWN
        room -= len(text)
        values[found[0]] = to_json(text)
    return MARKED.sub(lambda found: values[found[0]], document)
