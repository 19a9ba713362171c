"""Load aggregates, collect what happened to them, and commit it as one decision."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any

from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import (
    Accepted,
    Context,
    Event,
    JsonObject,
)
from libs.eventstore.event_decoding import ADDITIVE, replay
from libs.eventstore.ports import (
    BEGINS,
    IMPORT,
    Commit,
    EventStore,
    Fence,
    InboxEntry,
    NewEvent,
    Snapshot,
    VersionConflict,
)
from libs.eventstore.read_model_rows import RowWrites

CACHED_AGGREGATES_MAX = 2_000
CACHED_BYTES_MAX = 64 << 20  # of JSON; as objects it takes several times as much
DISTRUSTFUL_DECISIONS = 1_000
LOCK_SECONDS_MAX = 2.0

Projection = Callable[[Event, str, RowWrites], None]
Watch = Callable[[Event], None]


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
        self.watchers: list[Watch] = []
        self.watchers_of: dict[type[Event], list[Watch]] = {}
        self.distrustful = 0

    def watch(self, kinds: Iterable[type[Event]], watch: Watch) -> None:
        """Have each event of these kinds seen once it is committed, unless an import brings it."""
        for kind in kinds:
            self.watchers_of.setdefault(kind, []).append(watch)

    async def load[A: Aggregate[Any]](self, kind: type[A], aggregate_id: str, *, org: str) -> A:
        """The aggregate as of now; blank (version 0) if nothing ever happened to it, and also if it
        is another organisation's: whose it is, is all that is said of it then."""
        cached = self.drop(aggregate_id)
        base = cached if isinstance(cached, kind) else None
        history = await self.store.load(
            aggregate_id, base.version if base else 0, state_version=kind.state_version()
        )
        aggregate = replay(self.service, kind, aggregate_id, history, base)
        if aggregate.org in ("", org):
            return aggregate
        self.keep(aggregate)
        return kind.blank(aggregate_id, org=aggregate.org)

    def claim[A: Aggregate[Any]](self, kind: type[A], aggregate_id: str, *, org: str) -> A | None:
        """The cached aggregate of an organisation, no longer cached, as its last commit here left
        it."""
        if self.find_cached(kind, aggregate_id, org=org) is None:
            return None
        cached = self.drop(aggregate_id)
        return cached if isinstance(cached, kind) else None

    def drop(self, aggregate_id: str) -> Aggregate[Any] | None:
        """Take an aggregate out of the cache."""
        cached = self.cache.pop(aggregate_id, None)
        if cached is not None:
            self.cached_bytes -= cached.payload_bytes
        return cached

    def find_cached[A: Aggregate[Any]](
        self, kind: type[A], aggregate_id: str, *, org: str
    ) -> A | None:
        """The aggregate of an organisation as its last commit here left it, to be looked at
        only."""
        cached = self.cache.get(aggregate_id)
        return cached if isinstance(cached, kind) and cached.org == org else None

    def keep(self, aggregate: Aggregate[Any]) -> None:
        """Remember an aggregate whose events are all committed, unless it is deleted, or nothing
        ever happened to it."""
        if not aggregate.exists:
            return
        known = self.drop(aggregate.id)
        newest = known if known and known.version >= aggregate.version else aggregate
        if newest.deleted:
            return
        self.cache[aggregate.id] = newest
        self.cached_bytes += newest.payload_bytes
        while len(self.cache) > CACHED_AGGREGATES_MAX or self.cached_bytes > CACHED_BYTES_MAX:
            self.drop(next(iter(self.cache)))

    def work(self, context: Context, *, trusting: bool = False) -> UnitOfWork:
        """A new decision in the name of a message.

        A trusting one is made on what is cached, if that can be expected to be up to date. What it
        decides counts once it is committed, so a refusal has to be decided again without trust.
        """
        if trusting:
            self.distrustful = max(self.distrustful - 1, 0)
        return UnitOfWork(
            self, context, trusting=trusting and not self.distrustful, optimistic=trusting
        )


class TakenElsewhere(Exception):
    """Something was to happen to an aggregate of another organisation; nothing of the decision
    exists."""


class LockTaken(Exception):
    """Another decision about the same has taken long; nothing of this one exists."""


class UnitOfWork:
    """One decision: the aggregates it loaded, and what its commit holds besides their events."""

    def __init__(
        self,
        repository: Repository,
        context: Context,
        *,
        trusting: bool = False,
        optimistic: bool = False,
    ) -> None:
        self.repository = repository
        self.context = context
        self.trusting = trusting
        self.optimistic = optimistic
        self.trusted: set[str] = set()
        self.assumed_new: set[str] = set()
        self.loaded: dict[str, Aggregate[Any]] = {}
        self.events: list[Event] = []
        self.rows = RowWrites()
        # The rows of those aggregates whose events are projected already.
        self.projected: dict[str, RowWrites] = {}
        self.prepared: Commit | None = None
        self.private: str | None = None
        self.take_lease: str | None = None
        self.after_commit: list[Callable[[int | None], None]] = []
        # In whose name an event is recorded, where that is not the message of this decision.
        self.context_of: Callable[[Event], Context] | None = None
        # The import that its events come from: they happened elsewhere. With some of them an
        # aggregate begins, for the first time or again.
        self.import_id = ""
        self.continues_import = False
        self.begins: set[tuple[str, int]] = set()
        self.held: list[AbstractAsyncContextManager[None]] = []

    async def load[A: Aggregate[Any]](self, kind: type[A], aggregate_id: str) -> A:
        """The aggregate as of now, watched: what happens to it is part of this decision."""
        aggregate = self.loaded.get(aggregate_id)
        if aggregate is None and self.trusting:
            aggregate = self.repository.claim(kind, aggregate_id, org=self.context.org)
            if aggregate is not None:
                self.trusted.add(aggregate_id)
        if aggregate is None:
            aggregate = await self.repository.load(kind, aggregate_id, org=self.context.org)
        self.loaded[aggregate_id] = aggregate
        assert isinstance(aggregate, kind)
        return aggregate

    async def load_both[A: Aggregate[Any], B: Aggregate[Any]](
        self, first: tuple[type[A], str], second: tuple[type[B], str]
    ) -> tuple[A, B]:
        """Two aggregates as of now, read side by side unless both can be taken as they are here."""
        cached, org = self.repository.find_cached, self.context.org
        if self.trusting and cached(*first, org=org) and cached(*second, org=org):
            return await self.load(*first), await self.load(*second)
        one, other = await asyncio.gather(
            self.load(first[0], first[1]), self.load(second[0], second[1])
        )
        return one, other

    async def load_new[A: Aggregate[Any]](self, kind: type[A], aggregate_id: str) -> A:
        """An aggregate that should not exist yet. The first decision about a message takes it as
        blank without asking the store, and its commit is refused if that was wrong."""
        if not self.optimistic or aggregate_id in self.repository.cache:
            return await self.load(kind, aggregate_id)
        aggregate = kind.blank(aggregate_id)
        self.loaded[aggregate_id] = aggregate
        self.assumed_new.add(aggregate_id)
        return aggregate

    @property
    def has_decided(self) -> bool:
        """Whether something is to happen to an aggregate that it has loaded."""
        return any(aggregate.pending_events for aggregate in self.loaded.values())

    @property
    def unverified(self) -> bool:
        """Whether it rests on what was not read: a refusal has to be decided again."""
        return bool(self.trusted or self.assumed_new)

    async def hold(self, lock: AbstractAsyncContextManager[None]) -> None:
        """Take one more lock until the decision is committed or given up: its message holds that
        of the aggregate that it is about, and this decision changes another one, too.

        Raises LockTaken if it is not free in time: whoever has it may wait for one that is held
        here, or for the message's place in quarantine. So all of that has to be given back before
        it is decided again.
        """
        try:
            async with asyncio.timeout(LOCK_SECONDS_MAX):
                await lock.__aenter__()
        except TimeoutError:
            raise LockTaken("another decision takes long") from None
        self.held.append(lock)

    async def release(self) -> None:
        """Give back what was taken with `hold`. Safe to repeat."""
        while self.held:
            await self.held.pop().__aexit__(None, None, None)

    def adopt(self, aggregate: Aggregate[Any]) -> None:
        """Decide about an aggregate that the caller holds, and goes on to hold alone."""
        self.loaded[aggregate.id] = aggregate
        self.private = aggregate.id

    def project(self, aggregate_id: str, events: Iterable[Event]) -> RowWrites:
        """Project all events that this decision has of an aggregate, for a look at the rows before
        its commit has them. No other aggregate of the decision may write the same rows."""
        rows = self.projected[aggregate_id] = RowWrites()
        for event in events:
            self.repository.project(event, self.context.org, rows)
        return rows

    def prepare(self) -> Commit:
        """Work out what the commit holds. Whoever has to wait before it may do so meanwhile;
        nothing more may happen to what was loaded. Raises TakenElsewhere."""
        commit = Commit(rows=self.rows)
        for aggregate in self.loaded.values():
            fresh = aggregate.take_new_events()
            if fresh and aggregate.org not in ("", self.context.org):
                raise TakenElsewhere(aggregate.id)
            if fresh:
                aggregate.org = self.context.org
            self.events += fresh
            if not fresh and aggregate.id in self.trusted:
                commit.unchanged[aggregate.id] = aggregate.version
            if fresh and snapshot_due(aggregate):
                commit.snapshots.append(snapshot_of(aggregate, self.context.org))
                aggregate.snapshot_version = aggregate.version
        for rows in self.projected.values():
            commit.rows.add(rows)
        for event in self.events:
            if event.originator_id not in self.projected:
                self.repository.project(event, self.context.org, commit.rows)
            envelope = self.envelope(event)
            commit.events.append(envelope)
            self.loaded[event.originator_id].payload_bytes += len(envelope.payload_json)
        self.prepared = commit
        return commit

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
        commit = self.prepared or self.prepare()
        commit.fence, commit.release_lease = fence, release_lease
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
        for event in self.events:
            for watch in () if self.import_id else self.repository.watchers_of.get(type(event), ()):
                watch(event)
            for watch in self.repository.watchers:
                watch(event)
        for then in self.after_commit:
            then(epoch)
        return epoch

    def envelope(self, event: Event) -> NewEvent:
        """The event with the columns of the log around it."""
        context = self.context_of(event) if self.context_of else self.context
        metadata: JsonObject = {
            "actor": context.actor,
            "correlation_id": context.correlation_id,
            "command_id": context.message_id,
        }
        if self.import_id:
            metadata[IMPORT] = self.import_id
        if (event.originator_id, event.originator_version) in self.begins:
            metadata[BEGINS] = True
        if event.additive:
            metadata[ADDITIVE] = True
        if context.traceparent:
            metadata["traceparent"] = context.traceparent
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


def snapshot_due(aggregate: Aggregate[Any]) -> bool:
    """Whether so much has happened since the newest snapshot that can be read that the next one is
    worth its cost."""
    return aggregate.version - aggregate.snapshot_version >= aggregate.snapshot_every_events


def snapshot_of(aggregate: Aggregate[Any], org: str) -> Snapshot:
    """The state of an aggregate as plain JSON."""
    state = aggregate.state.model_dump(mode="json")
    return Snapshot(aggregate.id, aggregate.version, state, aggregate.state_version(), org)
