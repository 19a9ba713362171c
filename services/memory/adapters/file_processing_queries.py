"""Files that are to be processed."""

from __future__ import annotations

from typing import Protocol

from libs.eventstore.connection_pool import Database
from libs.work.work_lease import DueWork
from services.memory.domain.file import DELAY_SECONDS_MAX

UNFINISHED = "memory.files where status not in ('completed', 'error')"
# The first of each organisation come before the second of any. Nobody waits longer than
# `DELAY_SECONDS_MAX`: what is due later was said by a process whose clock is wrong.
DUE_FILES = """
select id, org from (
    select f.id, f.org, f.due_at,
           row_number() over (partition by f.org order by f.due_at, f.id) as place
    from memory.files f
    where f.status not in ('completed', 'error')
      and (f.due_at <= now() or f.due_at > now() + make_interval(secs => %(seconds_max)s))
      and not exists (select from memory.leases l where l.key = f.id and l.expires_at > now())
) due
where place <= %(of_org)s order by place, due_at limit %(limit)s"""

ORPHANS = """
select f.id, f.org from memory.files f
where not exists (select from memory.folders d where d.id = f.folder_id)
order by f.folder_id limit %(limit)s"""


class FileProcessingQueries(Protocol):
    """The queries of the engine about files."""

    async def due_files(self, of_org: int, limit: int) -> list[DueWork]:
        """Files that are to be processed now, and nobody does; at most `of_org` of each
        organisation."""

    async def orphans(self, limit: int) -> list[DueWork]:
        """Files whose folders are gone."""


class PostgresFileProcessingQueries:
    """Keeps the contract of `FileProcessingQueries`."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def due_files(self, of_org: int, limit: int) -> list[DueWork]:
        values = {"of_org": of_org, "limit": limit, "seconds_max": DELAY_SECONDS_MAX}
        if not await self.database.any_row(UNFINISHED):
            return []
        rows = await self.database.fetch(DUE_FILES, values)
        return [DueWork(*row) for row in rows]

    async def orphans(self, limit: int) -> list[DueWork]:
        return [DueWork(*row) for row in await self.database.fetch(ORPHANS, {"limit": limit})]
