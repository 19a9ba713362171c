"""Moments in Postgres: who makes which, its rows, and how long they are kept.

A moment is a cache of what the events say. Its rows have a key of their own, `as_of`, that no other
attempt at the same moment has: a process that was thought dead writes to rows that nobody reads.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from libs.contracts.moments import MOMENT_TABLES
from libs.eventstore.connection_pool import Database, execute_query
from libs.eventstore.event_decoding import event_of
from libs.eventstore.moment_rows import moment_statements, only_tables
from libs.eventstore.ports import StoredEvent
from libs.eventstore.read_model_replay import ReadModels
from libs.eventstore.read_model_rows import RowWrites

MOMENTS_OF_ORG_MAX = 64
MOMENT_EVENTS_MAX = 2_000_000
MOMENT_BYTES_MAX = 2 << 30  # of the payloads of its events
# So long after the last read its rows are kept; where an organisation wants another moment and has
# the most that it may have, so long at least.
MOMENT_KEPT_SECONDS = 3_600
MOMENT_KEPT_SECONDS_MIN = 60
# A moment that a living process makes is written to more often than this.
SILENT_SECONDS_MAX = 30
SWEPT_EVERY_SECONDS = 30.0
ROWS_DELETED_MAX = 5_000

# Most aggregates have few events: those of many are read at once, and the rest of each by itself.
AGGREGATES_AT_ONCE_MAX = 50
EVENTS_OF_EACH_MAX = 5
PAGE_EVENTS_MAX = 250
PAGE_BYTES_MAX = 2 << 20
# Of an aggregate with more events what can be is copied from the rows of now, of so many of its
# versions at once.
COPIED_EVENTS_MIN = 1_000
COPIED_VERSIONS_MAX = 10_000

FOUND = """
update {past}.moments set used_at = now()
where agent_id = %(agent)s and org = %(org)s and cut = %(cut)s and selection = %(selection)s
  and state = 'complete' returning as_of"""
ABANDON_SILENT = """
update {past}.moments set state = 'abandoned', seen_at = now()
where agent_id = %(agent)s and org = %(org)s and cut = %(cut)s and selection = %(selection)s
  and state = 'filling' and seen_at < now() - make_interval(secs => %(silent)s)
returning as_of"""
BEGIN = """
insert into {past}.moments (org, agent_id, cut, selection)
select %(org)s, %(agent)s, %(cut)s, %(selection)s
where (select count(*) from {past}.moments where org = %(org)s and state <> 'abandoned') < %(most)s
on conflict do nothing returning as_of"""
IS_MADE = """
select 1 from {past}.moments
where agent_id = %(agent)s and org = %(org)s and cut = %(cut)s and selection = %(selection)s
  and state <> 'abandoned'"""
MAKE_ROOM = """
update {past}.moments set state = 'abandoned', seen_at = now() where as_of = (
    select as_of from {past}.moments
    where org = %(org)s and state = 'complete'
      and used_at < now() - make_interval(secs => %(seconds)s)
    order by used_at limit 1)
returning as_of"""
COUNT = """
update {past}.moments set seen_at = now(), events = events + %(events)s, bytes = bytes + %(bytes)s
where as_of = %(as_of)s and state = 'filling' returning events, bytes"""
END = """
update {past}.moments set state = %(state)s, seen_at = now(), used_at = now()
where as_of = %(as_of)s and state = 'filling' returning as_of"""

COLUMNS = "aggregate_id, version, topic, schema_version, org, about, payload, occurred_at"
EVENTS_OF_MANY = f"""
select {COLUMNS} from unnest(%(ids)s::text[]) with ordinality as wanted(id, place)
cross join lateral (
    select e.aggregate_id, e.version, e.topic, e.schema_version, e.org, e.about,
           e.payload::text as payload, e.occurred_at
    from {{schema}}.events e
    where e.aggregate_id = wanted.id and e.org = %(org)s and e.commit_order <= %(cut)s
      and not e.metadata ? 'erased'
      and e.topic <> all(%(skipped)s::text[])
    order by e.version limit %(each)s) found
order by wanted.place, found.version"""
EVENTS_OF_ONE = f"""
select {COLUMNS} from (
    select found.*, sum(octet_length(payload)) over (
        order by version rows between unbounded preceding and 1 preceding) as bytes_before
    from (
        select e.aggregate_id, e.version, e.topic, e.schema_version, e.org, e.about,
               e.payload::text as payload, e.occurred_at
        from {{schema}}.events e
        where e.aggregate_id = %(id)s and e.version > %(after)s and e.org = %(org)s
          and e.commit_order <= %(cut)s and not e.metadata ? 'erased'
          and e.topic <> all(%(skipped)s::text[]) and not ({{copied}})
        order by e.version limit %(most)s) found) counted
where coalesce(bytes_before, 0) < %(bytes_max)s order by version"""

# Versions are in the order of commits.
LAST_VERSION = "select {schema}.version_at(%(id)s, %(cut)s, 9223372036854775807)"

ABANDON_OLD = """
update {past}.moments set state = 'abandoned', seen_at = now()
where (state = 'complete' and used_at < now() - make_interval(secs => %(kept)s))
   or (state = 'filling' and seen_at < now() - make_interval(secs => %(silent)s))"""
# Whoever was told the key of a moment before it was abandoned reads it at once, if ever.
ABANDONED = """
select as_of from {past}.moments
where state = 'abandoned' and seen_at < now() - make_interval(secs => %(seconds)s)
order by as_of limit 100"""
DELETE_ROWS = """
delete from {past}.{table}_rows where ctid = any(array(
    select ctid from {past}.{table}_rows where as_of = %(as_of)s limit %(most)s))
returning 1"""
DELETE = "delete from {past}.moments where as_of = %(as_of)s"
# Whoever makes a moment just now may have read what is to be forgotten.
FORGET = """
update {past}.moments m set state = 'abandoned', seen_at = 'epoch'
where m.state = 'filling' or {have_rows}
returning m.as_of"""
HAS_ROWS = (
    "exists (select from {past}.{table}_rows t"
    " where t.as_of = m.as_of and t.{aggregate} = any(%(ids)s::text[]))"
)


class NoRoomForMoment(Exception):
    """The organisation has as many moments as it may have, and reads them all."""


class MomentTooLarge(Exception):
    """The history is longer than a moment may be."""


class MomentAbandoned(Exception):
    """Another process makes the moment by now."""


@dataclass(frozen=True, slots=True)
class WantedMoment:
    """Which moment: an agent's, at a commit. `selection` tells apart which aggregates others said
    to be the agent's."""

    org: str
    agent_id: str
    cut: int
    selection: str = ""

    @property
    def values(self) -> dict[str, Any]:
        """The parameters of statements that name it."""
        return {
            **{"org": self.org, "agent": self.agent_id},
            **{"cut": self.cut, "selection": self.selection},
        }


@dataclass(frozen=True, slots=True)
class Claim:
    """A moment that is there (`complete`), or that this process is to make; None where another
    process makes it."""

    as_of: int | None
    complete: bool = False


@dataclass(frozen=True, slots=True)
class Copies:
    """The statements that copy present rows of a long aggregate. Each of the `statements` copies
    what events between the versions `after` and `upto` made, and none changed since but by events
    that are replayed all the same; `is_copied` says of an event `e` that its row was."""

    statements: tuple[str, ...]
    is_copied: str


class Moments:
    """The moments of one service."""

    def __init__(
        self,
        database: Database,
        models: ReadModels,
        skipped: Sequence[str] = (),
        copies: Copies | None = None,
    ) -> None:
        """`skipped` are topics that change no row of a moment; without `copies` every event is
        replayed."""
        self.database = database
        self.models = models
        self.skipped = [*skipped]
        self.copies = copies
        self.schema = models.service
        self.past = f"{models.service}_as_of"
        self.tables = frozenset(MOMENT_TABLES[models.service])
        self.swept_at = time.monotonic()

    def sql(self, text: str) -> str:
        """The statement for this service."""
        return text.format(past=self.past, schema=self.schema, table="{table}")

    async def claim(self, wanted: WantedMoment) -> Claim:
        """The moment, or the order to make it. Raises NoRoomForMoment."""
        values = {
            **wanted.values,
            "silent": SILENT_SECONDS_MAX,
            "most": MOMENTS_OF_ORG_MAX,
        }
        if found := await self.database.fetch_one(self.sql(FOUND), values):
            return Claim(found[0], complete=True)
        await self.database.fetch(self.sql(ABANDON_SILENT), values)
        for _ in range(2):
            if begun := await self.database.fetch_one(self.sql(BEGIN), values):
                return Claim(begun[0])
            if await self.database.fetch(self.sql(IS_MADE), values):
                return Claim(None)
            room = {"org": wanted.org, "seconds": MOMENT_KEPT_SECONDS_MIN}
            if not await self.database.fetch(self.sql(MAKE_ROOM), room):
                break
        raise NoRoomForMoment

    async def fill(self, as_of: int, wanted: WantedMoment, ids: Sequence[str]) -> None:
        """Write the rows of some aggregates as their events up to the cut make them. Raises
        MomentTooLarge, and MomentAbandoned where another process makes the moment by now."""
        values = {"org": wanted.org, "cut": wanted.cut, "skipped": self.skipped}
        for start in range(0, len(ids), AGGREGATES_AT_ONCE_MAX):
            some = [*ids[start : start + AGGREGATES_AT_ONCE_MAX]]
            few = {**values, "ids": some, "each": EVENTS_OF_EACH_MAX}
            events = await self.database.fetch(self.sql(EVENTS_OF_MANY), few)
            await self.write(as_of, events)
            last_versions = {row[0]: row[1] for row in events}
            for name, count in Counter(row[0] for row in events).items():
                if count == EVENTS_OF_EACH_MAX:
                    await self.fill_one(as_of, values, name, last_versions[name])

    async def fill_one(
        self, as_of: int, values: dict[str, Any], aggregate_id: str, after: int
    ) -> None:
        """Write the rest of the rows of one aggregate."""
        copied = await self.copy(as_of, values, aggregate_id, after)
        text = EVENTS_OF_ONE.format(schema=self.schema, copied=copied)
        most = {"most": PAGE_EVENTS_MAX, "bytes_max": PAGE_BYTES_MAX, "as_of": as_of}
        while True:
            page = {**values, **most, "id": aggregate_id, "after": after}
            events = await self.database.fetch(text, page)
            if not events:
                return
            await self.write(as_of, events)
            after = events[-1][1]

    async def copy(self, as_of: int, values: dict[str, Any], aggregate_id: str, after: int) -> str:
        """Copy what can be of a long aggregate from the rows of now; returns the condition on
        an event that need not be replayed then. Raises MomentAbandoned."""
        named = {**values, "as_of": as_of, "id": aggregate_id}
        last = await self.database.fetch_one(self.sql(LAST_VERSION), named)
        if self.copies is None or last is None or last[0] - after <= COPIED_EVENTS_MIN:
            return "false"
        for start in range(after, last[0], COPIED_VERSIONS_MAX):
            upto = min(start + COPIED_VERSIONS_MAX, last[0])
            async with self.database.connection() as connection, connection.transaction():
                part = {**named, "after": start, "upto": upto, "last": last[0]}
                await self.count(connection, as_of, upto - start, 0)
                for text in self.copies.statements:
                    await execute_query(connection, text, part)
        return self.copies.is_copied

    async def write(self, as_of: int, events: list[tuple[Any, ...]]) -> None:
        """Write what some events do to the rows; then leave the process as much time as that took:
        it has others to answer."""
        began = time.monotonic()
        rows = RowWrites()
        for row in events:
            stored = stored_event(row)
            self.models.project(event_of(self.models.service, stored), stored.org, rows)
        computed = time.monotonic() - began
        bytes_read = sum(len(row[6]) for row in events)
        async with self.database.connection() as connection, connection.transaction():
            await self.count(connection, as_of, len(events), bytes_read)
            for text, values in moment_statements(
                self.schema, as_of, only_tables(rows, self.tables)
            ):
                await execute_query(connection, text, values)
        await asyncio.sleep(computed)

    async def count(
        self, connection: psycopg.AsyncConnection[Any], as_of: int, events: int, bytes_read: int
    ) -> None:
        """Count what the moment is made of, in the transaction that writes it. Raises
        MomentTooLarge and MomentAbandoned."""
        counted = {"as_of": as_of, "events": events, "bytes": bytes_read}
        total = await (await execute_query(connection, self.sql(COUNT), counted)).fetchone()
        if total is None:
            raise MomentAbandoned
        if total[0] > MOMENT_EVENTS_MAX or total[1] > MOMENT_BYTES_MAX:
            raise MomentTooLarge

    async def complete(self, as_of: int) -> None:
        """All rows are written. Raises MomentAbandoned."""
        ended = {"as_of": as_of, "state": "complete"}
        if not await self.database.fetch(self.sql(END), ended):
            raise MomentAbandoned

    async def abandon(self, as_of: int) -> None:
        """Let others try: this process does not make the moment."""
        await self.database.fetch(self.sql(END), {"as_of": as_of, "state": "abandoned"})

    async def forget(self, aggregate_ids: Sequence[str]) -> None:
        """Remove all moments that have rows of these aggregates, whose events were erased."""
        have_rows = " or ".join(
            HAS_ROWS.format(past=self.past, table=table.name, aggregate=table.aggregate)
            for table in self.models.tables
            if table.name in self.tables
        )
        text = FORGET.format(past=self.past, have_rows=have_rows)
        for (as_of,) in await self.database.fetch(text, {"ids": [*aggregate_ids]}):
            await self.delete(as_of)

    async def sweep(self) -> None:
        """Remove the rows of moments that nobody has read for long, some at a time."""
        if time.monotonic() - self.swept_at < SWEPT_EVERY_SECONDS:
            return
        self.swept_at = time.monotonic()
        ages = {"kept": MOMENT_KEPT_SECONDS, "silent": 2 * SILENT_SECONDS_MAX}
        await self.database.fetch(self.sql(ABANDON_OLD), ages)
        abandoned = {"seconds": MOMENT_KEPT_SECONDS_MIN}
        for (as_of,) in await self.database.fetch(self.sql(ABANDONED), abandoned):
            await self.delete(as_of)

    async def delete(self, as_of: int) -> None:
        """Remove the rows of a moment, and the moment."""
        values = {"as_of": as_of, "most": ROWS_DELETED_MAX}
        for table in sorted(self.tables):
            text = DELETE_ROWS.format(past=self.past, table=table)
            while len(await self.database.fetch(text, values)) == ROWS_DELETED_MAX:
                pass
        await self.database.fetch(self.sql(DELETE), values)


def stored_event(row: tuple[Any, ...]) -> StoredEvent:
    """An event by its columns; nothing is projected from its metadata, which is left out."""
    aggregate_id, version, topic, schema, org, about, payload, at = row
    return StoredEvent(aggregate_id, version, topic, schema, org, about, payload, {}, at)
