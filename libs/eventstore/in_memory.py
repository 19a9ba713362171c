"""The in-memory event store: the contract of Postgres, for tests and for the simulator."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from libs.eventstore.failed_messages.in_memory import InMemoryDeadLetterStore
from libs.eventstore.in_memory_database import InMemoryDatabase, Lease
from libs.eventstore.ports import (
    BEGINS,
    ERASED,
    IMPORT,
    LEASE_SECONDS,
    LOG_PAGE_BYTES_MAX,
    LOG_PAGE_EVENTS_MAX,
    REPLIES_FORGOTTEN_AT_ONCE,
    SNAPSHOT_KEPT_EVENTS,
    Beginning,
    Commit,
    DuplicateMessage,
    Fence,
    History,
    Progress,
    Snapshot,
    StaleLease,
    StoredEvent,
    TakenLease,
    UpstreamPage,
    VersionConflict,
    Waiting,
    instance_of,
    is_cut,
)
from libs.eventstore.read_model_rows import Table


class InMemoryEventStore:
    """Keeps the contract of `ports.EventStore`; one instance is one process of one service."""

    def __init__(self, database: InMemoryDatabase, service: str, holder: str) -> None:
        self.database = database
        self.service = service
        self.holder = holder
        self.schema = database.schema(service)
        self.letters = InMemoryDeadLetterStore(self.schema, database.clock)
        self.held: dict[str, int] = {}

    async def load(self, aggregate_id: str, after: int = 0, *, state_version: str = "") -> History:
        """Everything about an aggregate that is newer than `after`."""
        snapshot = self.schema.snapshots.get((aggregate_id, state_version))
        if snapshot and snapshot.version <= after:
            snapshot = None
        newest = snapshot.version if snapshot else after
        stream = self.schema.streams.get(aggregate_id, [])
        return History(snapshot, [event for event in stream if event.version > newest])

    async def commit(self, commit: Commit) -> int | None:
        """Make a decision durable; see `ports.EventStore.commit`."""
        schema = self.schema
        self.pass_gate(commit)
        if commit.inbox and commit.inbox.message_id in schema.inbox:
            raise DuplicateMessage(schema.inbox[commit.inbox.message_id])
        self.append(commit)
        if commit.inbox:
            schema.inbox[commit.inbox.message_id] = commit.inbox.reply_json
            schema.handled_at[commit.inbox.message_id] = self.database.clock()
        for snapshot in commit.snapshots:
            self.keep_snapshot(snapshot)
        if commit.move:
            schema.positions[commit.move.upstream] = commit.move.to
        if commit.fence and commit.release_lease:
            self.forget_lease(commit.fence)
            del schema.leases[commit.fence.key]
        commit.rows.apply(self.schema.tables)
        return await self.take_lease(commit.take_lease) if commit.take_lease else None

    def keep_snapshot(self, snapshot: Snapshot) -> None:
        """Replace the snapshot of this form, and drop those that are outlived."""
        kept = self.schema.snapshots
        oldest = snapshot.version - SNAPSHOT_KEPT_EVENTS
        for key, other in list(kept.items()):
            if other.aggregate_id == snapshot.aggregate_id and other.version < oldest:
                del kept[key]
        kept[snapshot.aggregate_id, snapshot.state_version] = snapshot

    def pass_gate(self, commit: Commit) -> None:
        """Raise StaleLease or VersionConflict where the condition of the commit does not hold."""
        assert commit.conditions <= 1, "a commit has one condition"
        for aggregate_id, version in commit.unchanged.items():
            stream = self.schema.streams.get(aggregate_id, [])
            if stream and stream[-1].version > version:
                raise VersionConflict(aggregate_id)
        if commit.fence:
            lease = self.schema.leases.get(commit.fence.key)
            if lease is None or lease.epoch != commit.fence.epoch:
                self.forget_lease(commit.fence)
                raise StaleLease(commit.fence.key)
        if commit.move:
            stands_at = self.schema.positions.get(commit.move.upstream)
            if stands_at != commit.move.expected:
                raise StaleLease(commit.move.upstream)

    def append(self, commit: Commit) -> None:
        """Append the events, all or none."""
        taken: set[tuple[str, int]] = set()
        for event in commit.events:
            stream = self.schema.streams.get(event.aggregate_id, [])
            if stream and event.version <= stream[-1].version:
                raise VersionConflict(event.topic)
            if (event.aggregate_id, event.version) in taken:
                raise VersionConflict(event.topic)
            taken.add((event.aggregate_id, event.version))
        self.database.commits += 1
        for event in commit.events:
            stored = StoredEvent(
                event.aggregate_id,
                event.version,
                event.topic,
                event.schema_version,
                event.org,
                event.about,
                event.payload_json,
                event.metadata,
                event.occurred_at,
                commit_order=self.database.commits,
            )
            self.schema.streams.setdefault(event.aggregate_id, []).append(stored)
            self.schema.committed.append(stored)

    async def stored_reply(self, message_id: str) -> str | None:
        return self.schema.inbox.get(message_id)

    async def forget_replies(self, older_than_seconds: float) -> int:
        """Forget some of the replies that nobody can be waiting for any more; returns how many."""
        before = self.database.clock() - older_than_seconds
        old = [name for name, at in self.schema.handled_at.items() if at < before]
        for message_id in old[:REPLIES_FORGOTTEN_AT_ONCE]:
            del self.schema.inbox[message_id], self.schema.handled_at[message_id]
        return min(len(old), REPLIES_FORGOTTEN_AT_ONCE)

    async def take_lease(self, key: str) -> int | None:
        taken = await self.take_over(key)
        return taken.epoch if taken else None

    async def take_over(self, key: str) -> TakenLease | None:
        """Take a lease, and learn what became of the attempt before."""
        now = self.database.clock()
        lease = self.schema.leases.get(key)
        if lease and lease.expires_at >= now:
            return None
        self.schema.epochs += 1
        epoch = self.schema.epochs
        taken_over = lease is not None
        self.schema.leases[key] = Lease(self.holder, epoch, now + LEASE_SECONDS, taken_over)
        self.held[key] = epoch
        return TakenLease(epoch, taken_over)

    async def succeed(self) -> int:
        """Let the leases of whoever was this instance before run out now; returns how many."""
        instance = instance_of(self.holder)
        freed = [
            lease
            for lease in self.schema.leases.values()
            if instance and instance_of(lease.holder) == instance and lease.holder != self.holder
        ]
        for lease in freed:
            lease.expires_at = float("-inf")
        return len(freed)

    async def renew_leases(self) -> set[str]:
        """Prolong every lease that this process took; returns those that it holds."""
        until = self.database.clock() + LEASE_SECONDS
        for key, epoch in list(self.held.items()):
            lease = self.schema.leases.get(key)
            if lease and lease.epoch == epoch:
                lease.expires_at = until
            else:
                del self.held[key]
        return set(self.held)

    def forget_lease(self, fence: Fence) -> None:
        """Stop renewing a lease, unless it was taken anew."""
        if self.held.get(fence.key) == fence.epoch:
            del self.held[fence.key]

    async def release_lease(self, fence: Fence, *, failed: bool = False) -> None:
        """Give a lease up, if it is still ours; see `ports.EventStore.release_lease`."""
        lease = self.schema.leases.get(fence.key)
        self.forget_lease(fence)
        if lease and lease.epoch == fence.epoch:
            if failed:
                lease.expires_at = float("-inf")
            else:
                del self.schema.leases[fence.key]

    async def erase(self, aggregate_ids: list[str], kept_topics: list[str], at: datetime) -> int:
        """Replace the payloads of aggregates by tombstones; see `ports.EventStore.erase`."""
        tombstone = json.dumps({"erased_at": at.isoformat()})
        schema, ids = self.schema, {*aggregate_ids}
        begun_again = {
            aggregate_id: version
            for aggregate_id in ids & schema.streams.keys()
            if (version := present_life(schema.streams[aggregate_id], kept_topics))
        }
        erased = 0

        def after(event: StoredEvent) -> StoredEvent:
            is_kept = event.topic in kept_topics or ERASED in event.metadata
            is_kept = is_kept or event.version >= begun_again.get(
                event.aggregate_id, event.version + 1
            )
            if event.aggregate_id not in ids or is_kept:
                return event
            metadata = {**event.metadata, ERASED: True}
            return replace(event, payload_json=tombstone, metadata=metadata)

        for aggregate_id in ids & schema.streams.keys():
            before = schema.streams[aggregate_id]
            schema.streams[aggregate_id] = [*map(after, before)]
            for event, now in zip(before, schema.streams[aggregate_id], strict=True):
                if event is not now:
                    erased += 1
                    message_id = str(event.metadata.get("command_id"))
                    schema.inbox.pop(message_id, None)
                    schema.handled_at.pop(message_id, None)
        schema.committed[:] = map(after, schema.committed)
        schema.log[:] = map(after, schema.log)
        for key in [key for key in schema.snapshots if key[0] in ids]:
            del schema.snapshots[key]
        return erased

    async def import_of(self, aggregate_id: str) -> Beginning | None:
        for event in reversed(self.schema.streams.get(aggregate_id, [])):
            if event.metadata.get(BEGINS):
                return Beginning(str(event.metadata[IMPORT]), event.version)
        return None

    async def rows_of_others(
        self, table: Table, column: str, values: Sequence[str], aggregate_id: str
    ) -> list[str]:
        found = {
            str(row[column])
            for row in self.schema.tables.get(table.name, {}).values()
            if row.get(column) in values and row.get(table.aggregate) != aggregate_id
        }
        return sorted(found)

    async def begun_by_import(
        self, import_id: str, after: str, limit: int
    ) -> list[tuple[str, str]]:
        """The aggregates that an import began, by id, and the topic that each began with."""
        begun = sorted(
            (aggregate_id, event.topic)
            for aggregate_id, stream in self.schema.streams.items()
            for event in stream
            if aggregate_id > after
            and event.metadata.get(BEGINS)
            and event.metadata.get(IMPORT) == import_id
        )
        return begun[:limit]

    async def number_log(self, limit: int = LOG_PAGE_EVENTS_MAX) -> int:
        """Give committed events their dense positions; returns how many."""
        schema = self.schema
        fresh = schema.committed[len(schema.log) : len(schema.log) + limit]
        for event in fresh:
            schema.log.append(replace(event, position=len(schema.log) + 1))
        return len(fresh)

    async def read_log(self, after: int, limit: int = LOG_PAGE_EVENTS_MAX) -> list[StoredEvent]:
        """The service's own log behind a position, in order, without holes."""
        return page_of(self.schema.log[after : after + limit], limit)

    async def read_upstream(
        self, upstream: str, after: int, topics: list[str], limit: int = LOG_PAGE_EVENTS_MAX
    ) -> UpstreamPage:
        """The events of some topics in another service's log."""
        log = self.database.schema(upstream).log
        found = page_of((event for event in log[after:] if event.topic in topics), limit)
        seen = found[-1].position if is_cut(found, limit) else max(len(log), after)
        return UpstreamPage(found, seen)

    async def waiting(self, upstreams: list[str]) -> Waiting:
        """In which logs something is new."""
        progress = await self.progress(upstreams)
        new = (each for each in upstreams if progress[f"consumer of {each}"].waiting)
        return Waiting(progress["relay"].waiting > 0, frozenset(new))

    async def progress(self, upstreams: list[str]) -> dict[str, Progress]:
        """The progress of this service in the logs that it works through."""
        schema = self.schema
        found = {"relay": Progress(schema.published, len(schema.committed) - schema.published)}
        for upstream in upstreams:
            stands_at = schema.positions.get(upstream, 0)
            behind = len(self.database.schema(upstream).log) - stands_at
            found[f"consumer of {upstream}"] = Progress(stands_at, behind)
        return found

    async def published_position(self) -> int:
        return self.schema.published

    async def mark_published(self, position: int) -> None:
        self.schema.published = max(self.schema.published, position)

    async def position(self, upstream: str) -> int:
        """Where the consumer of another service's log stands."""
        return self.schema.positions.setdefault(upstream, 0)


def page_of(events: Iterable[StoredEvent], limit: int) -> list[StoredEvent]:
    """As many of these events as a page of the log may have."""
    page: list[StoredEvent] = []
    size = 0
    for event in events:
        if len(page) == limit or size >= LOG_PAGE_BYTES_MAX:
            break
        page.append(event)
        size += event.payload_bytes
    return page


def present_life(stream: list[StoredEvent], ends: list[str]) -> int:
    """The version with which an aggregate began by an import, if it was not deleted since; else
    0."""
    begun = 0
    for event in stream:
        if event.metadata.get(BEGINS):
            begun = event.version
        elif event.topic in ends:
            begun = 0
    return begun
