"""Queries about versions of blocks, also of deleted ones."""

from __future__ import annotations

from dataclasses import dataclass

from libs.eventstore.connection_pool import DatabaseQueries
from services.api.adapters.resource_query_builder import Order

# What is said of a version, but for the values. V1 knows users and agents as authors.
WHO = """'version', v.version,
 'created_at', to_char(v.created_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
 'kind', case v.topic when 'block.created' then 'created' when 'block.deleted' then 'deleted'
  else case when v.restored_version is null then 'changed' else 'restored' end end,
 'restored_version', v.restored_version,
 'author_id', coalesce(v.cause->>'agent_id', v.actor), 'run_id', nullif(v.cause->>'run_id', ''),
 'tool_call_id', v.cause->>'tool_call_id', 'tool_name', v.cause->>'tool'"""
OF_BLOCK = "v.id = %(block)s and v.org = %(org)s"
# Of what comes first in an order as much as has room in an answer, but one at least.
ROOM = "sum(octet_length({text})) over (order by v.version {order}) - octet_length({text})"
BYTES_MAX = 4 << 20
VERSIONS = f"""select json_agg(page.entry)::text from (
 select json_build_object('block_id', v.id, {WHO}, 'fields', v.fields) as entry,
  {ROOM.replace("{text}", "v.fields::text")} as room
 from memory.block_version_view v where {OF_BLOCK} and {{within}}
 order by v.version {{order}} limit %(limit)s) page where page.room < {BYTES_MAX}"""
FIELDS_AT = f"""select jsonb_object_agg(f.key, f.value)::text
from (select distinct on (f.key) f.key, f.value
 from memory.block_version_view v cross join lateral jsonb_each(v.fields) f
 where {OF_BLOCK} and v.version <= %(version)s
 order by f.key, v.version desc) f
where exists (select from memory.block_version_view v where {OF_BLOCK}
 and v.version = %(version)s and v.topic <> 'block.deleted')"""
NEWEST = f"""select max(v.version)::text from memory.block_version_view v
where {OF_BLOCK} and v.topic <> 'block.deleted'"""
VALUES = f"""select json_agg(value.entry)::text from (
 select json_build_object({WHO}, 'value', v.fields->>'value') as entry,
  {ROOM.format(text="(v.fields->>'value')", order="desc")} as room
 from memory.block_version_view v where {OF_BLOCK} and v.fields ? 'value'
 order by v.version desc limit %(limit)s) value where value.room < {BYTES_MAX}"""


@dataclass(frozen=True, slots=True)
class VersionSlice:
    """Which versions of a block: those beyond `after` and short of `before` in the order."""

    org: str
    block_id: str
    after: int | None = None
    before: int | None = None
    limit: int = 50
    order: Order = "desc"


class BlockHistoryQueries(DatabaseQueries):
    """Reads the versions of blocks."""

    async def versions(self, part: VersionSlice) -> bytes:
        """Versions as a JSON array; of each the fields that it changed, with their new values. It
        is shorter than asked for where these are large."""
        beyond, short = (">", "<") if part.order == "asc" else ("<", ">")
        conditions = ["true"]
        values = {"org": part.org, "block": part.block_id, "limit": part.limit}
        for name, value, sign in (("after", part.after, beyond), ("before", part.before, short)):
            if value is not None:
                conditions.append(f"v.version {sign} %({name})s")
                values[name] = value
        query = VERSIONS.format(order=part.order, within=" and ".join(conditions))
        return await self.database.fetch_text(query, values) or b"[]"

    async def newest_version(self, org: str, block_id: str) -> int | None:
        """The newest version in which a block was there; None for a block that never was."""
        found = await self.database.fetch_text(NEWEST, {"org": org, "block": block_id})
        return int(found) if found else None

    async def fields_at(self, org: str, block_id: str, version: int) -> bytes | None:
        """All fields of a block in one of its versions, as JSON; None for a version that it never
        had, or in which it was gone."""
        values = {"org": org, "block": block_id, "version": version}
        return await self.database.fetch_text(FIELDS_AT, values)

    async def values(self, org: str, block_id: str, limit: int) -> bytes:
        """The newest versions that changed the value, as a JSON array, the newest first; fewer
        where they are large."""
        values = {"org": org, "block": block_id, "limit": limit}
        return await self.database.fetch_text(VALUES, values) or b"[]"
