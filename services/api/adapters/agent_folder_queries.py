"""What an agent sees of folders, for handlers that put it together."""

from __future__ import annotations

from typing import Any

from libs.contracts.open_file_rendering import (
    FILES_LISTED_MAX,
    from_line,
    pieces_for,
    visible_lines,
)
from libs.eventstore.connection_pool import Database

# Of the agents of one answer.
FILES_MAX = 10_000
FILES_OF_AGENTS = """
select wanted.id, json_build_object('file_id', f.id, 'folder_id', f.folder_id, 'name', f.name,
    'is_open', f.is_open, 'start_line', f.first_line, 'end_line', f.last_line, 'lines', f.lines,
    'last_accessed_at', f.opened_at)
from unnest(%(ids)s::text[]) with ordinality as wanted(id, place)
cross join lateral (
    select * from memory.agent_file_view
    where agent_id = wanted.id and org = %(org)s
    order by is_open desc, created_at, id limit %(each)s) f
order by wanted.place, f.is_open desc, f.created_at, f.id limit %(limit)s"""


class AgentFolderQueries:
    """Reads the views that the memory service publishes."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def unknown_folders(self, org: str, folder_ids: list[str]) -> list[str]:
        """Those of these folders that the organisation has not got."""
        rows = await self.database.fetch(
            "select wanted.id from unnest(%(ids)s::text[]) as wanted(id) where not exists"
            " (select from memory.folder_view f where f.id = wanted.id and f.org = %(org)s)",
            {"ids": folder_ids, "org": org},
        )
        return [folder_id for (folder_id,) in rows]

    async def folders_of_agent(self, org: str, agent_id: str) -> list[str]:
        """The folders that are attached to an agent, in the order in which they came."""
        rows = await self.database.fetch(
            "select a.folder_id from memory.agent_folder_view a"
            " cross join lateral (select org from memory.folder_view"
            " where id = a.folder_id limit 1) f"
            " where a.agent_id = %(agent)s and a.org = %(org)s and f.org = a.org"
            " order by a.created_at, a.folder_id",
            {"agent": agent_id, "org": org},
        )
        return [folder_id for (folder_id,) in rows]

    async def files_of_agents(
        self, org: str, agent_ids: list[str]
    ) -> list[tuple[str, dict[str, Any]]]:
        """The files of these agents, each with its agent: as many as a prompt lists, those that
        are open first."""
        return await self.database.fetch(
            FILES_OF_AGENTS,
            {"ids": agent_ids, "org": org, "each": FILES_LISTED_MAX, "limit": FILES_MAX},
        )

    async def visible_content(self, org: str, file: dict[str, Any], chars_max: int) -> str:
        """What an agent sees of a file that it has open."""
        first = file["start_line"] or 1
        pieces = await self.database.fetch(
            "select number, first_line, text from memory.file_text_view"
            " where file_id = %(file)s and org = %(org)s and last_line >= %(first)s"
            " order by number limit %(pieces)s",
            {
                "file": file["file_id"],
                "org": org,
                "first": first,
                "pieces": pieces_for(chars_max),
            },
        )
        text = from_line(pieces, first)
        return visible_lines(text, file["lines"], file["start_line"], file["end_line"], chars_max)

    async def names_of_files(self, org: str, file_ids: list[str]) -> list[str]:
        """The names of these files with their folders, in this order."""
        rows = await self.database.fetch(
            "select d.name || '/' || f.name"
            " from unnest(%(ids)s::text[]) with ordinality as wanted(id, place)"
            " cross join lateral (select folder_id, name, org from memory.file_view"
            " where id = wanted.id limit 1) f"
            " cross join lateral (select name, org from memory.folder_view"
            " where id = f.folder_id limit 1) d"
            " where f.org = %(org)s and d.org = f.org order by wanted.place",
            {"ids": file_ids, "org": org},
        )
        return [name for (name,) in rows]
