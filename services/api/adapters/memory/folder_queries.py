"""Queries about folders and files besides rows of them."""

from __future__ import annotations

from libs.eventstore.connection_pool import DatabaseQueries

STATISTICS = """
select json_build_object(
    'total_sources', count(*),
    'total_files', coalesce(sum(s.files), 0),
    'total_size', coalesce(sum(s.size), 0),
    'sources', coalesce(json_agg(json_build_object(
        'source_id', s.id, 'source_name', s.name, 'file_count', s.files, 'total_size', s.size,
        'files', s.listed) order by s.name) filter (where %(detailed)s), '[]'))::text
from (
    select d.id, d.name, f.files, f.size, f.listed
    from memory.folder_view d cross join lateral (
        select count(*) as files, coalesce(sum(f.file_size), 0) as size,
            coalesce(json_agg(json_build_object('file_id', f.id,
                'file_name', d.name || '/' || f.name, 'file_size', f.file_size) order by f.name)
                filter (where %(detailed)s), '[]') as listed
        from memory.file_view f where f.folder_id = d.id and f.org = d.org) f
    where d.org collate "C" = %(org)s) s"""
ID_OF_NAME = """
select to_json(id)::text from memory.folder_view
where org collate "C" = %(org)s and name collate "C" = %(name)s"""
CHARS = """
select coalesce(sum(chars), 0) from memory.file_view
where folder_id = %(folder)s and org = %(org)s"""


class FolderQueries(DatabaseQueries):
    """Reads the published views."""

    async def statistics(self, org: str, *, detailed: bool) -> bytes:
        """The number of folders and files, and their size together, as JSON."""
        found = await self.database.fetch_text(STATISTICS, {"org": org, "detailed": detailed})
        assert found is not None, "an aggregate is one row"
        return found

    async def id_of_name(self, org: str, name: str) -> bytes | None:
        """The id of the folder of a name, as JSON."""
        return await self.database.fetch_text(ID_OF_NAME, {"org": org, "name": name})

    async def chars(self, org: str, folder_id: str) -> int:
        """The number of characters in the texts of a folder's files."""
        return await self.number(CHARS, {"org": org, "folder": folder_id})
