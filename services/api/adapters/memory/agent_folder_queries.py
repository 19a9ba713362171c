"""Queries about the folders that an agent sees, for handlers that put a view together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from libs.contracts.memory.open_file_rendering import (
    FILES_LISTED_MAX,
    from_line,
    segments_for,
    visible_lines,
)
from libs.eventstore.connection_pool import DatabaseQueries

# Of the agents of one answer, each of which has the same share.
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
order by wanted.place, f.is_open desc, f.created_at, f.id"""
SEGMENTS = """
select wanted.place::int, p.number, p.first_line, p.text
from unnest(%(files)s::text[], %(lines)s::bigint[], %(segments)s::bigint[])
    with ordinality as wanted(file_id, line, segments, place)
cross join lateral (
    select number, first_line, text from memory.file_text_view
    where file_id = wanted.file_id and org = %(org)s and last_line >= wanted.line
    order by number limit wanted.segments) p
order by wanted.place, p.number"""


class AgentFolderQueries(DatabaseQueries):
    """Reads the views that the memory service publishes."""

    async def unknown_folders(self, org: str, folder_ids: list[str]) -> list[str]:
        """Those of these folders that the organisation has not got."""
        return await self.column(
            "select wanted.id from unnest(%(ids)s::text[]) as wanted(id) where not exists"
            " (select from memory.folder_view f where f.id = wanted.id and f.org = %(org)s)",
            {"ids": folder_ids, "org": org},
        )

    async def folders_of_agent(self, org: str, agent_id: str) -> list[str]:
        """The folders that are attached to an agent, in the order in which they came."""
        return await self.column(
            "select a.folder_id from memory.agent_folder_view a"
            " cross join lateral (select org from memory.folder_view"
            " where id = a.folder_id limit 1) f"
            " where a.agent_id = %(agent)s and a.org = %(org)s and f.org = a.org"
            " order by a.created_at, a.folder_id",
            {"agent": agent_id, "org": org},
        )

    async def files_of_agents(
        self, org: str, agent_ids: list[str]
    ) -> list[tuple[str, dict[str, Any]]]:
        """The files of these agents, each with its agent: as many as a prompt lists, or fewer of
        each where there are many agents, those that are open first."""
        each = min(FILES_LISTED_MAX, FILES_MAX // max(1, len(agent_ids)))
        return await self.database.fetch(
            FILES_OF_AGENTS, {"ids": agent_ids, "org": org, "each": each}
        )

    async def visible_contents(
        self, org: str, wanted: Sequence[tuple[dict[str, Any], int]]
    ) -> list[str]:
        """The shown parts of an agent's open files, each of so many characters."""
        lines = [file["start_line"] or 1 for file, _ in wanted]
        rows = await self.database.fetch(
            SEGMENTS,
            {
                "files": [file["file_id"] for file, _ in wanted],
                "lines": lines,
                "segments": [segments_for(chars_max) for _, chars_max in wanted],
                "org": org,
            },
        )
        segments: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
        for place, *segment in rows:
            segments[place].append(tuple(segment))
        return [
            visible_lines(
                from_line(segments[place], line),
                file["lines"],
                file["start_line"],
                file["end_line"],
                chars_max,
            )
            for place, (line, (file, chars_max)) in enumerate(zip(lines, wanted, strict=True), 1)
        ]

    async def names_of_files(self, org: str, file_ids: list[str]) -> list[str]:
        """The names of these files with their folders, in this order."""
        return await self.column(
            "select d.name || '/' || f.name"
            " from unnest(%(ids)s::text[]) with ordinality as wanted(id, place)"
            " cross join lateral (select folder_id, name, org from memory.file_view"
            " where id = wanted.id limit 1) f"
            " cross join lateral (select name, org from memory.folder_view"
            " where id = f.folder_id limit 1) d"
            " where f.org = %(org)s and d.org = f.org order by wanted.place",
            {"ids": file_ids, "org": org},
        )
