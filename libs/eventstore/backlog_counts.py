"""Backlogs of relays and consumers, and of unfinished work."""

from __future__ import annotations

from functools import cache

from libs.eventstore.connection_pool import Database

EVENTS_COUNTED_MAX = 100_000

# What is numbered but not published, and what is not even numbered: counted by the index that the
# relay reads by, and not for ever, since who is that far behind need not know how far exactly.
RELAY_LAG = f"""
select r.position - r.published + (
    select count(*) from (
        select from {{schema}}.events e where (e.xid, e.position) > (r.xid, r.event_position)
        limit {EVENTS_COUNTED_MAX}) waiting)
from {{schema}}.relay r"""

CONSUMER_POSITION = """
coalesce((select position from {schema}.positions where upstream = '{upstream}'), 0)"""

CONSUMER_LAG = f"""
select coalesce((select position from {{upstream}}.log_head_view), 0) - {CONSUMER_POSITION}"""

# What has stored how far it has read a log: the consumers of other services' logs, among others.
CONSUMERS = "select upstream from {schema}.positions"

RELAY_WAITS = """
select exists (select from {schema}.events e where (e.xid, e.position) > (r.xid, r.event_position))
    or r.published < r.position"""

CONSUMER_WAITS = f", ({CONSUMER_LAG}) > 0"

# The row of the relay is written, as it is: whoever cannot write is not well.
RELAY_PROGRESS = f"""
with written as (update {{schema}}.relay set published = published returning published)
select 'relay', (select w.published from written w), ({RELAY_LAG})"""

CONSUMER_PROGRESS = f"""
union all select 'consumer of {{upstream}}', {CONSUMER_POSITION}, ({CONSUMER_LAG})"""

DEAD_LETTERS = "select count(*) from {schema}.dead_letters where status <> 'replayed'"


@cache
def progress_query(schema: str, upstreams: tuple[str, ...]) -> str:
    """The query for a service's progress in the logs that it works through: rows of the name, the
    position, and how many events wait."""
    consumers = (CONSUMER_PROGRESS.format(schema=schema, upstream=each) for each in upstreams)
    return "".join((RELAY_PROGRESS.format(schema=schema), *consumers))


@cache
def waiting_query(schema: str, upstreams: tuple[str, ...]) -> str:
    """Whether the relay has something to do, then the consumer of each upstream: one row."""
    consumers = (CONSUMER_WAITS.format(schema=schema, upstream=each) for each in upstreams)
    relay = RELAY_WAITS.format(schema=schema)
    return f"{relay}{''.join(consumers)} from {schema}.relay r"


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
    row = await database.fetch_one(CONSUMER_LAG.format(schema=schema, upstream=upstream))
    return max(int(row[0]), 0) if row else 0
