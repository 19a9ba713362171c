"""Make the read models of a service equal to what its events say, while the service goes on.

The log is gone through by aggregate, a page of whole aggregates at a time. What their events make
is compared with the rows that are there, in one snapshot and without a lock; a page that is right
costs nobody anything. Only a table that differs is locked against writers, for as long as it takes
to write the difference: readers never wait, and never miss a row that was there.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import IsolationLevel
from psycopg.errors import (
    DeadlockDetected,
    InsufficientPrivilege,
    LockNotAvailable,
    SerializationFailure,
)
from pydantic_core import to_json

from libs.contracts.bus_messages import JsonObject
from libs.eventstore.ports import ERASED, StoredEvent
from libs.eventstore.read_model_replay import ReadModels, Replay
from libs.eventstore.read_model_rows import Table
from libs.eventstore.row_write_parts import by_columns

PAGE_EVENTS_MAX = 500  # the last aggregate of a page is in it as a whole
PAGE_BYTES_MAX = 4 << 20  # of payloads, as they are stored
FETCHED_EVENTS_MAX = 250

# Commits wait as long as the lock does. It is asked for so often, with so long a pause between.
LOCK_WAIT_MILLISECONDS = 200
LOCK_TRIES_MAX = 50
LOCK_PAUSE_SECONDS = 0.1
DEADLOCK_MILLISECONDS = 50  # after this an autovacuum that holds the lock up is cancelled

# Everything is found by a key, also while the statistics do not know how large a table is.
SESSION_OPTIONS = "-c timezone=UTC -c enable_seqscan=off"

PAGE_END = """
select aggregate_id from (
    select aggregate_id, version, row_number() over log as place,
           sum(pg_column_size(payload)) over log as bytes
    from (
        select aggregate_id, version, payload from {schema}.events
        where aggregate_id > %(after)s order by aggregate_id, version limit %(events)s
    ) first
    window log as (order by aggregate_id, version)
) counted
where place = 1 or bytes <= %(bytes)s
order by aggregate_id desc, version desc limit 1"""

EVENTS = """
select e.aggregate_id, e.version, e.topic, e.schema_version, e.org, e.about, e.payload::text,
       e.occurred_at, e.metadata ? 'erased'
from {schema}.events e where {bounds} order by e.aggregate_id, e.version"""

# What was appended to the aggregates of a page since they were replayed, and to new ones.
NEWER_EVENTS = """
select e.aggregate_id, e.version, e.topic, e.schema_version, e.org, e.about, e.payload::text,
       e.occurred_at, e.metadata ? 'erased'
from {schema}.events e
left join unnest(%(ids)s::text[], %(versions)s::int[]) as known(id, version)
    on known.id = e.aggregate_id
where {bounds} and (known.version is null or e.version > known.version)
order by e.aggregate_id, e.version"""

DIFFERENCES = """
select count(*) from (select * from {schema}.{table} t where {bounds}) stored
full join pg_temp.expected_{table} expected using ({key})
where stored::text is distinct from expected::text"""

DELETE_STRAYS = """
delete from {schema}.{table} t where {bounds}
and not exists (select from pg_temp.expected_{table} e where {same})"""

WRITE_DIFFERENCES = """
insert into {schema}.{table} ({columns})
select {columns} from pg_temp.expected_{table} e
where not exists (
    select from {schema}.{table} t where {bounds} and {same} and t::text = e::text)
on conflict ({key}) do update set {values}"""

COLUMNS = """
select attname from pg_attribute
where attrelid = %s::regclass and attnum > 0 and not attisdropped and attgenerated = ''
order by attnum"""


class RebuildFailed(Exception):
    """The read models could not be rebuilt; what was rebuilt before stays so."""


@dataclass(slots=True)
class Rebuilt:
    """The result of a rebuild: the number of events replayed, and of rows changed by table (or
    would have changed). `complete` is false when its time was over before the log was."""

    events: int = 0
    changed: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    lock_seconds_max: float = 0.0
    complete: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """The aggregates behind `after` up to `upto`; without these from the first, to the last."""

    after: str | None
    upto: str | None

    def bounds(self, column: str) -> str:
        """The condition that a row belongs to one of them."""
        above = None if self.after is None else f"{column} > %(after)s"
        below = None if self.upto is None else f"{column} <= %(upto)s"
        return " and ".join(filter(None, (above, below))) or "true"

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the condition."""
        return {"after": self.after, "upto": self.upto}


class Rebuild:
    """One rebuild of some read models of a service, on a connection of its own that may lock the
    service's tables. `only_compare` changes nothing."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        schema: str,
        models: ReadModels,
        tables: tuple[Table, ...],
        *,
        only_compare: bool = False,
    ) -> None:
        self.connection = connection
        self.schema = schema
        self.models = models
        self.tables = sorted(tables, key=lambda table: table.name)
        self.only_compare = only_compare
        self.columns: dict[Table, list[str]] = {}
        self.rebuilt = Rebuilt()

    def run(
        self,
        *,
        seconds_max: float = float("inf"),
        progress: Callable[[Rebuilt], None] = lambda _: None,
    ) -> Rebuilt:
        """Go through the whole log, or until the time is over. Raises RebuildFailed, UnknownEvent,
        or what Postgres raised; safe to repeat after each."""
        began = time.monotonic()
        self.prepare()
        for page in self.pages():
            self.make_equal(page)
            self.rebuilt.seconds = time.monotonic() - began
            progress(self.rebuilt)
            if page.upto is not None and self.rebuilt.seconds > seconds_max:
                return self.rebuilt
        self.rebuilt.complete = True
        return self.rebuilt

    def prepare(self) -> None:
        """Make the tables that hold, for the time of a transaction, what the events say."""
        with suppress(InsufficientPrivilege):  # then a vacuum is waited for, try after try
            self.connection.execute(f"set deadlock_timeout = {DEADLOCK_MILLISECONDS}")
        for table in self.tables:
            name = f"{self.schema}.{table.name}"
            self.columns[table] = [row[0] for row in self.connection.execute(COLUMNS, [name])]
            self.connection.execute(
                f"create temp table expected_{table.name} (like {name}"
                " including defaults including generated) on commit delete rows"
            )

    def pages(self) -> Iterator[Page]:
        """All aggregates that there are, and what lies between and behind them."""
        after: str | None = None
        while True:
            row = self.connection.execute(
                PAGE_END.format(schema=self.schema),
                {"after": after or "", "events": PAGE_EVENTS_MAX, "bytes": PAGE_BYTES_MAX},
            ).fetchone()
            yield Page(after, row[0] if row else None)
            if row is None:
                return
            after = row[0]

    def make_equal(self, page: Page) -> None:
        """Compare the rows of a page with what their events say, and write what differs."""
        replay = Replay(self.models)
        self.connection.isolation_level = IsolationLevel.REPEATABLE_READ
        with self.connection.transaction():
            self.rebuilt.events += self.replay_page(page, replay)
            self.expect(replay, self.tables)
            wrong = {table: self.differences(page, table) for table in self.tables}
        differing = [table for table, rows in wrong.items() if rows]
        if self.only_compare:
            self.rebuilt.changed.update({table.name: wrong[table] for table in differing})
        elif differing:
            self.write(page, replay, differing)

    def replay_page(self, page: Page, replay: Replay) -> int:
        """Replay the events of a page, a few in memory at a time; returns how many."""
        statement = EVENTS.format(schema=self.schema, bounds=page.bounds("e.aggregate_id"))
        with self.connection.cursor(name="events_of_a_page") as cursor:
            cursor.itersize = FETCHED_EVENTS_MAX
            cursor.execute(statement, page.parameters)
            return replay.add(map(stored_event, cursor))

    def expect(self, replay: Replay, tables: list[Table]) -> None:
        """Fill the tables that hold what the events say."""
        for table in tables:
            rows = replay.rows.get(table.name, {})
            for columns, batch in by_columns(rows.values()):
                names = ", ".join(columns)
                self.connection.execute(
                    f"insert into pg_temp.expected_{table.name} ({names}) select {names} from"
                    f" json_populate_recordset(null::{self.schema}.{table.name}, %s::json)",
                    [to_json(batch).decode()],
                )

    def differences(self, page: Page, table: Table) -> int:
        """The number of rows of a page that are missing, surplus or different from the events."""
        statement = self.statement(DIFFERENCES, page, table)
        row = self.connection.execute(statement, page.parameters).fetchone()
        assert row is not None
        return int(row[0])

    def write(self, page: Page, replay: Replay, tables: list[Table]) -> None:
        """Write what differs, under a lock that holds up writers. Raises RebuildFailed where the
        lock is not to be had."""
        self.connection.isolation_level = IsolationLevel.READ_COMMITTED
        for _ in range(LOCK_TRIES_MAX):
            try:
                with self.connection.transaction():
                    self.write_locked(page, replay, tables)
                return
            except (LockNotAvailable, DeadlockDetected, SerializationFailure):
                time.sleep(LOCK_PAUSE_SECONDS)
        names = " and ".join(f"{self.schema}.{table.name}" for table in tables)
        raise RebuildFailed(
            f"{names} could not be locked in {LOCK_TRIES_MAX} tries: something writes to it for "
            "long. See pg_stat_activity; what was rebuilt stays, and the rest may be tried again"
        )

    def write_locked(self, page: Page, replay: Replay, tables: list[Table]) -> None:
        """One try. A commit that writes to one of the tables holds its lock from before its
        snapshot until it is durable, so under ours every one is seen whole or comes after."""
        self.expect(replay, tables)
        names = ", ".join(f"{self.schema}.{table.name}" for table in tables)
        self.connection.execute(f"set local lock_timeout = {LOCK_WAIT_MILLISECONDS}")
        self.connection.execute(f"lock table {names} in share row exclusive mode".encode())
        began = time.monotonic()
        if newer := self.newer_events(page, replay):
            self.rebuilt.events += replay.add(newer)
            for table in tables:
                self.connection.execute(f"delete from pg_temp.expected_{table.name}".encode())
            self.expect(replay, tables)
        changed: Counter[str] = Counter()
        for table in tables:
            for text in (DELETE_STRAYS, WRITE_DIFFERENCES):
                statement = self.statement(text, page, table)
                changed[table.name] += self.connection.execute(statement, page.parameters).rowcount
        self.rebuilt.changed.update(changed)
        held = time.monotonic() - began
        self.rebuilt.lock_seconds_max = max(self.rebuilt.lock_seconds_max, held)

    def newer_events(self, page: Page, replay: Replay) -> list[StoredEvent]:
        """The events committed to a page since it was replayed."""
        statement = NEWER_EVENTS.format(schema=self.schema, bounds=page.bounds("e.aggregate_id"))
        known = {"ids": [*replay.versions], "versions": [*replay.versions.values()]}
        rows = self.connection.execute(statement, {**page.parameters, **known}).fetchall()
        return [*map(stored_event, rows)]

    def statement(self, text: str, page: Page, table: Table) -> bytes:
        """A statement about the rows of a page in one table."""
        columns = self.columns[table]
        return text.format(
            schema=self.schema,
            table=table.name,
            bounds=page.bounds(f"t.{table.aggregate}"),
            key=", ".join(table.key),
            same=" and ".join(f"t.{column} = e.{column}" for column in table.key),
            columns=", ".join(columns),
            values=", ".join(f"{column} = excluded.{column}" for column in columns),
        ).encode()


def stored_event(row: tuple[Any, ...]) -> StoredEvent:
    """An event by its columns. Of its metadata, from which nothing is projected, only whether it
    was erased."""
    aggregate_id, version, topic, schema, org, about, payload, at, is_erased = row
    metadata: JsonObject = {ERASED: True} if is_erased else {}
    return StoredEvent(aggregate_id, version, topic, schema, org, about, payload, metadata, at)
