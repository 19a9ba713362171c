"""How far behind those are who work through a log, and what they left lying."""

from __future__ import annotations

from libs.eventstore.connection_pool import Database

EVENTS_COUNTED_MAX = 100_000

# What is numbered but not published, and what is not even numbered: counted by the index that the
# relay reads by, and not for ever, since who is that far behind need not know how far exactly.
RELAY_LAG = f"""
select coalesce((select max(position) from {{schema}}.log), 0) - r.published + (
    select count(*) from (
        select from {{schema}}.events e where (e.xid, e.position) > (r.xid, r.event_position)
        limit {EVENTS_COUNTED_MAX}) waiting)
from {{schema}}.relay r"""

CONSUMER_LAG = """
select coalesce((select position from {upstream}.event_log order by position desc limit 1), 0)
    - coalesce((select position from {schema}.positions where upstream = %s), 0)"""

DEAD_LETTERS = "select count(*) from {schema}.dead_letters where status <> 'replayed'"


async def dead_letters(database: Database, schema: str) -> int:
    """Messages that a service gave up, and that nobody replayed yet."""
    row = await database.fetch_one(DEAD_LETTERS.format(schema=schema))
    return int(row[0]) if row else 0


async def relay_lag(database: Database, schema: str) -> int:
    """Events of a service that are committed and not published yet."""
    row = await database.fetch_one(RELAY_LAG.format(schema=schema))
    return int(row[0]) if row else 0


async def consumer_lag(database: Database, schema: str, upstream: str) -> int:
    """Events of another service's log that this one has not handled yet."""
    sql = CONSUMER_LAG.format(schema=schema, upstream=upstream)
    row = await database.fetch_one(sql, [upstream])
    return max(int(row[0]), 0) if row else 0
