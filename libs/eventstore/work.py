"""Load aggregates, collect what happened to them, and commit it as one decision."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from pydantic_core import to_json

from libs.contracts.aggregate import Aggregate
from libs.contracts.message import EVENTS, Accepted, Context, Event, JsonObject
from libs.eventstore.ports import (
    Commit,
    EventStore,
    Fence,
    History,
    InboxEntry,
    NewEvent,
    Snapshot,
    StoredEvent,
    VersionConflict,
)
from libs.eventstore.rows import RowWrites

CACHED_AGGREGATES_MAX = 2_000
CACHED_BYTES_MAX = 64 << 20  # of JSON; as objects it takes several times as much
DISTRUSTFUL_DECISIONS = 1_000

Projection = Callable[[Event, str, RowWrites], None]


class Repository:
    """Aggregates of one service, with the recently used ones kept in memory.

    Another process may have written, so a cached aggregate is brought up to the stored version on
    every load. Only a trusting decision takes it as it is; then its commit is refused if the
    aggregate has gone on. Where that happens, several processes write, and for the next
    `DISTRUSTFUL_DECISIONS` nothing is trusted: it would cost more than it saves.

    An aggregate leaves the cache while somebody works on it, so an object that was changed by a
    failed decision is never seen again.
    """

    def __init__(self, store: EventStore, service: str, project: Projection) -> None:
        self.store = store
        self.service = service
        self.project = project
        self.cache: OrderedDict[str, Aggregate[Any]] = OrderedDict()
        self.cached_bytes = 0
        self.watchers: list[Callable[[Event], None]] = []
        self.distrustful = 0

    async def load[A: Aggregate[Any]](self, kind: type[A], aggregate_id: str) -> A:
        """The aggregate as of now; blank (version 0) if nothing ever happened to it."""
        cached = self.claim(kind, aggregate_id)
        history = await self.store.load(aggregate_id, cached.version if cached else 0)
        return replay(self.service, kind, aggregate_id, history, cached)

    def claim[A: Aggregate[Any]](self, kind: type[A], aggregate_id: str) -> A | None:
        """The cached aggregate, no longer cached, as its last commit here left it."""
        cached = self.drop(aggregate_id)
        return cached if isinstance(cached, kind) else None

    def drop(self, aggregate_id: str) -> Aggregate[Any] | None:
        """Take an aggregate out of the cache."""
        cached = self.cache.pop(aggregate_id, None)
        if cached is not None:
            self.cached_bytes -= cached.payload_bytes
        return cached

    def cached[A: Aggregate[Any]](self, kind: type[A], aggregate_id: str) -> A | None:
        """The aggregate as its last commit here left it, to be looked at only."""
        cached = self.cache.get(aggregate_id)
        return cached if isinstance(cached, kind) else None

    def keep(self, aggregate: Aggregate[Any]) -> None:
        """Remember an aggregate whose events are all committed, unless it is deleted."""
        known = self.drop(aggregate.id)
        newest = known if known and known.version >= aggregate.version else aggregate
        if newest.deleted:
            return
        self.cache[aggregate.id] = newest
        self.cached_bytes += newest.payload_bytes
        while len(self.cache) > CACHED_AGGREGATES_MAX or self.cached_bytes > CACHED_BYTES_MAX:
            self.drop(next(iter(self.cache)))

    def work(self, context: Context, *, trusting: bool = False) -> Work:
        """A new decision in the name of a message.

        A trusting one is made on what is cached, if that can be expected to be up to date. What it
        decides counts once it is committed, so a refusal has to be decided again without trust.
        """
        if trusting:
            self.distrustful = max(self.distrustful - 1, 0)
        return Work(self, context, trusting=trusting and not self.distrustful)


class Work:
    """One decision: the aggregates it loaded, and what its commit holds besides their events."""

    def __init__(self, repository: Repository, context: Context, *, trusting: bool = False) -> None:
        self.repository = repository
        self.context = context
        self.trusting = trusting
        self.trusted: set[str] = set()
        self.loaded: dict[str, Aggregate[Any]] = {}
        self.events: list[Event] = []
        self.rows = RowWrites()
        self.private: str | None = None
        self.take_lease: str | None = None
        self.after_commit: list[Callable[[int | None], None]] = []

    async def load[A: Aggregate[Any]](self, kind: type[A], aggregate_id: str) -> A:
        """The aggregate as of now, watched: what happens to it is part of this decision."""
        aggregate = self.loaded.get(aggregate_id)
        if aggregate is None and self.trusting:
            aggregate = self.repository.claim(kind, aggregate_id)
            if aggregate is not None:
                self.trusted.add(aggregate_id)
        if aggregate is None:
            aggregate = await self.repository.load(kind, aggregate_id)
        self.loaded[aggregate_id] = aggregate
        assert isinstance(aggregate, kind)
        return aggregate

    def adopt(self, aggregate: Aggregate[Any]) -> None:
        """Decide about an aggregate that the caller holds, and goes on to hold alone."""
        self.loaded[aggregate.id] = aggregate
        self.private = aggregate.id

    async def commit(
        self,
        *,
        reply: Accepted | None = None,
        fence: Fence | None = None,
        release_lease: bool = False,
    ) -> int | None:
        """Make the decision durable; with a reply, also that the context's message was answered.

        Returns the epoch of the lease that was asked for, if it was free.
        """
        commit = Commit(rows=self.rows, fence=fence, release_lease=release_lease)
        for aggregate in self.loaded.values():
            fresh = aggregate.collected()
            self.events += fresh
            if not fresh and aggregate.id in self.trusted:
                commit.unchanged[aggregate.id] = aggregate.version
            if fresh and snapshot_due(aggregate, len(fresh)):
                commit.snapshots.append(snapshot_of(aggregate))
        for event in self.events:
            self.repository.project(event, self.context.org, commit.rows)
            envelope = self.envelope(event)
            commit.events.append(envelope)
            self.loaded[event.originator_id].payload_bytes += len(envelope.payload_json)
        if reply is not None:
            stored = reply.model_copy(update={"fingerprint": self.context.fingerprint})
            commit.inbox = InboxEntry(self.context.message_id, stored.model_dump_json())
        commit.take_lease = self.take_lease
        try:
            epoch = await self.repository.store.commit(commit)
        except VersionConflict:
            if self.trusted:
                self.repository.distrustful = DISTRUSTFUL_DECISIONS
            raise
        for aggregate in self.loaded.values():
            if aggregate.id != self.private:
                self.repository.keep(aggregate)
        for watch in self.repository.watchers:
            for event in self.events:
                watch(event)
        for then in self.after_commit:
            then(epoch)
        return epoch

    def envelope(self, event: Event) -> NewEvent:
        """The event with the columns of the log around it."""
        metadata: JsonObject = {
            "actor": self.context.actor,
            "correlation_id": self.context.correlation_id,
            "command_id": self.context.message_id,
        }
        if self.context.traceparent:
            metadata["traceparent"] = self.context.traceparent
        return NewEvent(
            event.originator_id,
            event.originator_version,
            event.topic,
            event.schema_version,
            self.context.org,
            event.about,
            event.payload_json(),
            metadata,
            event.timestamp,
        )


def snapshot_due(aggregate: Aggregate[Any], fresh: int) -> bool:
    """Whether a version at which the aggregate wants a snapshot lies within the last `fresh`."""
    every = aggregate.snapshot_every_events
    return aggregate.version // every > (aggregate.version - fresh) // every


def snapshot_of(aggregate: Aggregate[Any]) -> Snapshot:
    """The state of an aggregate as plain JSON."""
    return Snapshot(aggregate.id, aggregate.version, aggregate.state.model_dump(mode="json"))


def replay[A: Aggregate[Any]](
    service: str, kind: type[A], aggregate_id: str, history: History, base: A | None = None
) -> A:
    """Bring an aggregate up to date with what the store knows that `base` does not."""
    if history.snapshot is not None:
        base = kind.blank(
            aggregate_id, version=history.snapshot.version, state=history.snapshot.state
        )
        base.payload_bytes = len(to_json(history.snapshot.state))
    aggregate = base if base is not None else kind.blank(aggregate_id)
    for stored in history.events:
        event_of(service, stored).mutate(aggregate)
        aggregate.payload_bytes += stored.payload_bytes
    return aggregate


def event_of(service: str, stored: StoredEvent) -> Event:
    """The event as today's class reads it, older payloads brought up to date."""
    kind = EVENTS[f"{service}.{stored.topic}"]
    payload = stored.payload
    if stored.schema_version < kind.schema_version:
        payload = kind.upcast(payload, stored.schema_version)
    return kind.model_validate(
        {
            **payload,
            "originator_id": stored.aggregate_id,
            "originator_version": stored.version,
            "timestamp": stored.occurred_at,
        }
    )
