"""The folders of an agent and their files, from the views that the memory service publishes."""

from __future__ import annotations

from dataclasses import replace

from libs.contracts.memory.open_file_rendering import FILES_LISTED_MAX, from_line, segments_for
from libs.eventstore.connection_pool import DatabaseQueries
from services.agent.domain.agents.attached_folders import AttachedFile, AttachedFolder

FOLDERS = """
select d.id, d.name, d.fields->>'description', d.fields->>'instructions'
from memory.agent_folder_view a
cross join lateral (select * from memory.folder_view where id = a.folder_id limit 1) d
where a.agent_id = %(agent)s and a.org = %(org)s and d.org = a.org
order by a.created_at, a.folder_id"""
FILES = """
select id, folder_id, name, lines, is_open, first_line, last_line, count(*) over ()
from memory.agent_file_view
where agent_id = %(agent)s and org = %(org)s
order by is_open desc, created_at, id limit %(limit)s"""
NAMED = """
select id, folder_id, name, lines, is_open, first_line, last_line
from memory.agent_file_view
where agent_id = %(agent)s and org = %(org)s and name = any(%(names)s)
order by created_at, id limit %(limit)s"""
SEGMENTS = """
select number, first_line, text from memory.file_text_view
where file_id = %(file)s and org = %(org)s and last_line >= %(first)s and number > %(after)s
order by number limit %(segments)s"""


class FolderQueries(DatabaseQueries):
    """The queries of prompts and file tools about an agent's folders."""

    async def seen_folders(self, org: str, agent_id: str, chars_max: int) -> list[AttachedFolder]:
        """The folders of an agent with their files, and so many characters of those it sees."""
        asked = {"org": org, "agent": agent_id}
        found = await self.database.fetch(FOLDERS, asked)
        if not found:
            return []
        rows = await self.database.fetch(FILES, {**asked, "limit": FILES_LISTED_MAX})
        files: dict[str, list[AttachedFile]] = {}
        for *columns, _ in rows:
            file = AttachedFile(*columns)
            if file.is_open and file.lines is not None:
                first = file.first_line or 1
                segments = await self.file_segments(
                    org, file.id, first_line=first, after=-1, segments=segments_for(chars_max)
                )
                file = replace(file, text=from_line(segments, first))
            files.setdefault(file.folder_id, []).append(file)
        unlisted = rows[0][-1] - len(rows) if rows else 0
        folders = [
            AttachedFolder(folder_id, name, description, instructions, files.get(folder_id, ()))
            for folder_id, name, description, instructions in found
        ]
        return [*folders[:-1], replace(folders[-1], unlisted=unlisted)]

    async def files_named(self, org: str, agent_id: str, names: list[str]) -> list[AttachedFile]:
        """Those of an agent's files that have these names, with their folder before them."""
        asked = {"org": org, "agent": agent_id, "names": names, "limit": FILES_LISTED_MAX}
        return [AttachedFile(*row) for row in await self.database.fetch(NAMED, asked)]

    async def files_of_agent(self, org: str, agent_id: str, limit: int) -> list[AttachedFile]:
        """The files of an agent without their text, those that are open first."""
        asked = {"org": org, "agent": agent_id, "limit": limit}
        rows = await self.database.fetch(FILES, asked)
        return [AttachedFile(*columns) for *columns, _ in rows]

    async def folder_ids(self, org: str, agent_id: str) -> list[str]:
        """The folders that an agent sees."""
        rows = await self.database.fetch(
            "select folder_id from memory.agent_folder_view where agent_id = %s and org = %s",
            [agent_id, org],
        )
        return [folder_id for (folder_id,) in rows]

    async def file_segments(
        self, org: str, file_id: str, *, first_line: int, after: int, segments: int
    ) -> list[tuple[int, int, str]]:
        """The next segments of a file's text from a line on: their number, their first line, and
        their text."""
        asked = {"org": org, "file": file_id, "first": first_line, "after": after}
        return await self.database.fetch(SEGMENTS, {**asked, "segments": segments})
