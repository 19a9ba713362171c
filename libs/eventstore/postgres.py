"""The event store on Postgres: asynchronous, lock-free, one statement per commit."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from datetime import datetime

import psycopg
from psycopg.errors import DeadlockDetected, UniqueViolation

from libs.eventstore import failpoints
from libs.eventstore.aggregate_load_query import HISTORIES, Wanted, columns, histories
from libs.eventstore.backlog_counts import progress_query, waiting_query
from libs.eventstore.commit_statement import commit_statement, lease_parameters, take_leases
from libs.eventstore.connection_pool import Database, refusal_of
from libs.eventstore.failed_messages.postgres import PostgresDeadLetterStore
from libs.eventstore.log_queries import LOG_HEAD, NUMBER_LOG, READ_LOG
from libs.eventstore.ports import (
    LEASE_SECONDS,
    LOG_PAGE_BYTES_MAX,
    LOG_PAGE_EVENTS_MAX,
    REPLIES_FORGOTTEN_AT_ONCE,
    Beginning,
    Commit,
    DuplicateMessage,
    Fence,
    History,
    Progress,
    StaleLease,
    StoredEvent,
    TakenLease,
    UpstreamPage,
    VersionConflict,
    Waiting,
    instance_of,
    is_cut,
)
from libs.eventstore.query_batching import Batched
from libs.eventstore.read_model_rows import Table

log = logging.getLogger(__name__)

type Outcome = int | BaseException | None

# In one statement, which has to end in time however much was deleted at once.
ERASED_AT_ONCE_MAX = 100_000

FORGET_REPLIES = """
delete from {schema}.inbox where message_id = any(array(
    select message_id from {schema}.inbox
    where handled_at < now() - make_interval(secs => %s) order by handled_at limit %s))
returning 1"""

# The leases that this process knows of, each at the epoch that it knows: what it does not know of
# runs out, and is taken over.
RENEW_LEASES = """
update {schema}.leases l set expires_at = now() + make_interval(secs => %(seconds)s)
from unnest(%(keys)s::text[], %(epochs)s::bigint[]) as mine(key, epoch)
where l.key = any(%(keys)s::text[]) and l.key = mine.key and l.epoch = mine.epoch
returning l.key"""

# Once for each start of a process: it may read all that is being worked on.
FREE_LEASES = """
update {schema}.leases set expires_at = '-infinity'
where starts_with(holder, %(instance)s || '/') and holder <> %(holder)s
returning key"""


class PostgresEventStore:
    """Keeps the contract of `ports.EventStore` in one schema of a Postgres database."""

    def __init__(self, database: Database, schema: str, holder: str) -> None:
        self.database = database
        self.schema = schema
        self.holder = holder
        self.histories_sql = HISTORIES.format(schema=schema)
        self.histories = Batched(self.load_many, called=lambda _: f"load {schema} history")
        self.commits = Batched(
            self.commit_many, touches=Commit.touches, size=Commit.bytes, called=self.trace_name
        )
        self.letters = PostgresDeadLetterStore(database, schema)
        self.held: dict[str, int] = {}

    def sql(self, text: str) -> str:
        """The statement for this service's schema."""
        return text.format(schema=self.schema)

    def trace_name(self, commit: Commit) -> str:
        """The name of a commit in a trace: by the events that it makes durable."""
        topics = dict.fromkeys(event.topic for event in commit.events)
        return f"commit {self.schema} {', '.join(topics) or 'nothing'}"

    async def load(self, aggregate_id: str, after: int = 0, *, state_version: str = "") -> History:
        """Everything about an aggregate that is newer than `after`."""
        return await self.histories.answer((aggregate_id, after, state_version))

    async def load_many(self, wanted: list[Wanted]) -> list[History]:
        """The histories of several aggregates, each behind its own version, in one query."""
        return histories(wanted, await self.database.fetch(self.histories_sql, columns(wanted)))

    async def commit(self, commit: Commit) -> int | None:
        """Make a decision durable; see `ports.EventStore.commit`.

        Under load, commits that touch different things share a statement (group commit). If it is
        refused, each is made by itself and learns its own outcome. One that deletes may take long:
        nobody waits for it, and it waits for nobody.
        """
        began = time.monotonic()
        batch = Batched(self.commit_many, called=self.trace_name) if commit.alone else self.commits
        outcome = await batch.answer(commit)
        if commit.fence and isinstance(outcome, StaleLease):
            self.forget_lease(commit.fence)
        if isinstance(outcome, BaseException):
            raise outcome
        if commit.fence and commit.release_lease:
            self.forget_lease(commit.fence)
        if commit.take_lease and outcome and time.monotonic() - began >= LEASE_SECONDS:
            # The answer was so long on its way that the lease may be somebody else's by now.
            await self.release_lease(Fence(commit.take_lease, outcome))
            return None
        return self.took_lease(commit.take_lease, outcome)

    async def commit_many(self, commits: list[Commit]) -> list[Outcome]:
        """The outcome of each commit: the epoch of its lease, or the exception to raise."""
        if len(commits) > 1:
            try:
                return await self.commit_together(commits)
            except (psycopg.Error, StaleLease, VersionConflict) as problem:
                log.debug("%d commits are made one by one: %s", len(commits), problem)
            return [*await asyncio.gather(*map(self.commit_alone, commits), return_exceptions=True)]
        try:
            return [await self.commit_alone(commits[0])]
        except Exception as problem:
            return [problem]

    async def commit_together(self, commits: list[Commit]) -> list[Outcome]:
        """Make commits durable in one statement, all or none."""
        statement, parameters = commit_statement(self.schema, self.holder, commits)
        topics = [commit.events[-1].topic if commit.events else "nothing" for commit in commits]
        for topic in topics:
            failpoints.reach(f"before_commit.{topic}")
        row = await self.database.fetch_one(statement, parameters)
        if row is None:
            raise shut_gate(commits)
        for topic in topics:
            failpoints.reach(f"after_commit.{topic}")
        epochs: dict[str, int] = row[0] or {}
        return [epochs.get(commit.take_lease or "") for commit in commits]

    async def commit_alone(self, commit: Commit) -> int | None:
        """Make one commit durable; its refusal says what was wrong with it."""
        topic = commit.events[-1].topic if commit.events else "nothing"
        try:
            [epoch] = await self.commit_together([commit])
        except UniqueViolation as violation:
            constraint = violation.diag.constraint_name
            if constraint in ("inbox_message_key", "events_version_key") and commit.inbox:
                reply = await self.stored_reply(commit.inbox.message_id)
                if reply is not None:
                    raise DuplicateMessage(reply) from violation
            if constraint == "events_version_key" or await self.is_overtaken(commit):
                raise VersionConflict(topic) from violation
            raise refusal_of(violation) from violation
        except DeadlockDetected as crossed:
            raise VersionConflict(topic) from crossed
        except psycopg.Error as problem:
            raise refusal_of(problem) from problem
        assert not isinstance(epoch, BaseException), "an exception is raised, not returned"
        return epoch

    async def is_overtaken(self, commit: Commit) -> bool:
        """Whether somebody else appended to one of the aggregates first. Rows are written before
        the events, so a unique row of a read model may notice it before the log does."""
        row = await self.database.fetch_one(
            self.sql(
                "select exists (select from unnest(%s::text[], %s::int[]) as mine(id, version)"
                " cross join lateral (select from {schema}.events e"
                " where e.aggregate_id = mine.id and e.version = mine.version limit 1) newer)"
            ),
            [
                [event.aggregate_id for event in commit.events],
                [event.version for event in commit.events],
            ],
        )
        return row is not None and bool(row[0])

    def took_lease(self, key: str | None, epoch: int | None) -> int | None:
        """Remember a lease if it was taken; returns its epoch."""
        if key is not None and epoch is not None:
            self.held[key] = epoch
        return epoch

    def forget_lease(self, fence: Fence) -> None:
        """Stop renewing a lease, unless it was taken anew."""
        if self.held.get(fence.key) == fence.epoch:
            del self.held[fence.key]

    async def stored_reply(self, message_id: str) -> str | None:
        row = await self.database.fetch_one(
            self.sql("select reply from {schema}.inbox where message_id = %s"), [message_id]
        )
        return row[0] if row else None

    async def forget_replies(self, older_than_seconds: float) -> int:
        """Forget some of the replies that nobody can be waiting for any more; returns how many."""
        rows = await self.database.fetch(
            self.sql(FORGET_REPLIES), [older_than_seconds, REPLIES_FORGOTTEN_AT_ONCE]
        )
        return len(rows)

    async def take_lease(self, key: str) -> int | None:
        taken = await self.take_over(key)
        return taken.epoch if taken else None

    async def take_over(self, key: str) -> TakenLease | None:
        """Take a lease, and learn what became of the attempt before."""
        row = await self.database.fetch_one(
            f"with gate as (select 1) {take_leases(self.schema, [key])}",
            lease_parameters([key], self.holder),
        )
        if row is None:
            return None
        _, epoch, taken_over = row
        self.took_lease(key, epoch)
        return TakenLease(epoch, taken_over)

    async def succeed(self) -> int:
        """Let the leases of whoever was this instance before run out now; returns how many."""
        instance = instance_of(self.holder)
        if not instance:
            return 0
        freed = await self.database.fetch(
            self.sql(FREE_LEASES), {"instance": instance, "holder": self.holder}
        )
        return len(freed)

    async def renew_leases(self) -> set[str]:
        """Prolong every lease that this process knows it took; returns those that it holds.

        What was taken while the statement ran is held too, though it was not in it.
        """
        asked = dict(self.held)
        if asked:
            rows = await self.database.fetch(
                self.sql(RENEW_LEASES),
                {
                    "seconds": LEASE_SECONDS,
                    "keys": sorted(asked),
                    "epochs": [asked[key] for key in sorted(asked)],
                },
            )
            for key in asked.keys() - {key for (key,) in rows}:
                self.forget_lease(Fence(key, asked[key]))
        return set(self.held)

    async def release_lease(self, fence: Fence, *, failed: bool = False) -> None:
        """Give a lease up, if it is still ours; see `ports.EventStore.release_lease`."""
        self.forget_lease(fence)
        free = "update {schema}.leases set expires_at = '-infinity'"
        give = free if failed else "delete from {schema}.leases"
        await self.database.fetch(
            self.sql(f"{give} where key = %s and epoch = %s"), [fence.key, fence.epoch]
        )

    async def erase(self, aggregate_ids: list[str], kept_topics: list[str], at: datetime) -> int:
        """Replace the payloads of aggregates by tombstones; see `ports.EventStore.erase`."""
        erased, some = 0, ERASED_AT_ONCE_MAX
        while some == ERASED_AT_ONCE_MAX:
            row = await self.database.fetch_one(
                self.sql("select {schema}.erase_events(%s::text[], %s::text[], %s, %s)"),
                [aggregate_ids, kept_topics, at, ERASED_AT_ONCE_MAX],
            )
            some = int(row[0]) if row else 0
            erased += some
        return erased

    async def import_of(self, aggregate_id: str) -> Beginning | None:
        row = await self.database.fetch_one(
            self.sql(
                "select metadata->>'import', version from {schema}.events"
                " where aggregate_id = %s and metadata ? 'begins' order by version desc limit 1"
            ),
            [aggregate_id],
        )
        return Beginning(*row) if row else None

    async def rows_of_others(
        self, table: Table, column: str, values: Sequence[str], aggregate_id: str
    ) -> list[str]:
        rows = await self.database.fetch(
            self.sql(
                f"select distinct {column} from {{schema}}.{table.name}"
                f" where {column} = any(%s::text[]) and {table.aggregate} <> %s"
            ),
            [[*values], aggregate_id],
        )
        return sorted(value for (value,) in rows)

    async def begun_by_import(
        self, import_id: str, after: str, limit: int
    ) -> list[tuple[str, str]]:
        """The aggregates that an import began, by id, and the topic that each began with."""
        rows = await self.database.fetch(
            self.sql(
                "select aggregate_id, topic from {schema}.events"
                " where metadata->>'import' = %s and metadata ? 'begins'"
                ' and aggregate_id collate "C" > %s order by aggregate_id collate "C" limit %s'
            ),
            [import_id, after, limit],
        )
        return [(aggregate_id, topic) for aggregate_id, topic in rows]

    async def number_log(self, limit: int = LOG_PAGE_EVENTS_MAX) -> int:
        row = await self.database.fetch_one(self.sql(NUMBER_LOG), {"limit": limit})
        assert row is not None
        return int(row[0])

    async def read_log(self, after: int, limit: int = LOG_PAGE_EVENTS_MAX) -> list[StoredEvent]:
        """The service's own log behind a position, in order, without holes."""
        rows = await self.database.fetch(
            self.sql(READ_LOG),
            {"after": after, "limit": limit, "topics": None, "bytes": LOG_PAGE_BYTES_MAX},
        )
        return [StoredEvent(*row) for row in rows]

    async def read_upstream(
        self, upstream: str, after: int, topics: list[str], limit: int = LOG_PAGE_EVENTS_MAX
    ) -> UpstreamPage:
        row = await self.database.fetch_one(LOG_HEAD.format(schema=upstream))
        head = int(row[0]) if row else 0
        rows = await self.database.fetch(
            READ_LOG.format(schema=upstream),
            {"after": after, "limit": limit, "topics": topics, "bytes": LOG_PAGE_BYTES_MAX},
        )
        events = [StoredEvent(*row) for row in rows]
        seen = events[-1].position if is_cut(events, limit) else max(head, after)
        return UpstreamPage([event for event in events if event.position <= seen], seen)

    async def waiting(self, upstreams: list[str]) -> Waiting:
        """In which logs something is new."""
        row = await self.database.fetch_one(waiting_query(self.schema, tuple(upstreams)))
        assert row is not None, "the relay has a row from the first migration on"
        relay, *consumers = row
        new = (each for each, behind in zip(upstreams, consumers, strict=True) if behind)
        return Waiting(bool(relay), frozenset(new))

    async def progress(self, upstreams: list[str]) -> dict[str, Progress]:
        """The progress of this service in the logs that it works through; the row of the relay is
        written, as it is."""
        rows = await self.database.fetch(progress_query(self.schema, tuple(upstreams)))
        return {name: Progress(int(done), max(int(waiting), 0)) for name, done, waiting in rows}

    async def published_position(self) -> int:
        row = await self.database.fetch_one(self.sql("select published from {schema}.relay"))
        assert row is not None
        return int(row[0])

    async def mark_published(self, position: int) -> None:
        await self.database.fetch(
            self.sql("update {schema}.relay set published = %s where published < %s"),
            [position, position],
        )

    async def position(self, upstream: str) -> int:
        row = await self.database.fetch_one(
            self.sql("select position from {schema}.positions where upstream = %s"), [upstream]
        )
        if row is None:
            await self.database.fetch(
                self.sql("insert into {schema}.positions values (%s, 0) on conflict do nothing"),
                [upstream],
            )
            return await self.position(upstream)
        return int(row[0])


def shut_gate(commits: list[Commit]) -> Exception:
    """The exception for commits whose gate was shut."""
    relied_on = [aggregate_id for commit in commits for aggregate_id in commit.unchanged]
    if relied_on:
        return VersionConflict(", ".join(relied_on))
    return StaleLease(
        ", ".join(commit.fence.key for commit in commits if commit.fence) or "position"
    )
