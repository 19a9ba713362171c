"""Past versions of blocks, from their recorded events."""

from __future__ import annotations

from typing import Protocol

from pydantic_core import from_json

from libs.contracts.bus_messages import JsonObject
from libs.eventstore.connection_pool import Database

FIELDS_AT = """
select jsonb_object_agg(f.key, f.value)::text
from (
    select distinct on (f.key) f.key, f.value
    from memory.events e
    cross join lateral jsonb_each(
        coalesce(e.payload->'block', e.payload->'changes', '{}')::jsonb) f
    where e.aggregate_id = %(block)s and e.org = %(org)s and e.version <= %(version)s
    order by f.key, e.version desc
) f
where exists (
    select from memory.events e
    where e.aggregate_id = %(block)s and e.version = %(version)s and e.topic <> 'block.deleted'
)"""


class PastBlockVersions(Protocol):
    """The queries about past versions of blocks."""

    async def fields_at(self, org: str, block_id: str, version: int) -> JsonObject | None:
        """The fields of a block in one of its versions; None for a version that it never had, or
        in which it was gone."""


class PostgresPastBlockVersions:
    """Keeps the contract of `PastBlockVersions`, from the events of the memory service."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def fields_at(self, org: str, block_id: str, version: int) -> JsonObject | None:
        values = {"org": org, "block": block_id, "version": version}
        text = await self.database.fetch_text(FIELDS_AT, values)
        fields: JsonObject | None = from_json(text) if text else None
        return fields
