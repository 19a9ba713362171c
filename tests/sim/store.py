"""The event store as one simulated process sees it: the in-memory one, at the other end of a wire.

What a process knows (its leases) dies with it; what the store did stays. A call may fail before or
after it took effect, and what a broken connection carried may still take effect a moment later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from libs.eventstore import failpoints
from libs.eventstore.failed_messages.ports import Attempt, DeadLetter, DeadLetterStore
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.ports import (
    LOG_PAGE_EVENTS_MAX,
    Commit,
    Fence,
    History,
    Progress,
    StaleLease,
    StoredEvent,
    StoreRefused,
    StoreUnavailable,
    TakenLease,
    UpstreamPage,
    Waiting,
    instance_of,
)
from libs.eventstore.read_model_rows import Table
from tests.sim.file_rows import FileRows
from tests.sim.loop import Lane
from tests.sim.network import STORE, Network, at

FAILS_AFTER_SECONDS_MAX = 5.0
LATE_SECONDS_MAX = 3.0
COMMIT_SECONDS = 0.004
SNAGS = 0.03
# Stands for what Postgres refuses whatever one does, as a text that is too long for an index.
UNSTORABLE = "cannot be stored"


@dataclass(slots=True)
class Transactions:
    """Which commits of a schema are open, and where their events stand: as in Postgres, a
    transaction has its number when it begins and is seen when it ends."""

    begun: int = 0
    open: set[int] = field(default_factory=set)
    unnumbered: list[tuple[int, int, StoredEvent]] = field(default_factory=list)

    def begin(self) -> int:
        self.begun += 1
        self.open.add(self.begun)
        return self.begun


class Server:
    """The database server: executes what arrives, one statement at a time, and watches."""

    def __init__(self, database: InMemoryDatabase, network: Network) -> None:
        self.database = database
        self.network = network
        self.transactions: dict[str, Transactions] = {}
        self.watchers: list[Watcher] = []
        # The bytes and texts of files, in worlds in which there are any.
        self.file_rows: FileRows | None = None

    def of(self, service: str) -> Transactions:
        return self.transactions.setdefault(service, Transactions())

    def in_memory(self, service: str, holder: str) -> InMemoryEventStore:
        """The in-memory store of a process; what the process knows is the client's."""
        return InMemoryEventStore(self.database, service, holder)

    def commit(self, service: str, holder: str, xid: int, commit: Commit) -> int | None:
        """The end of a transaction: everything is seen, or nothing happened."""
        book = self.of(service)
        book.open.discard(xid)
        in_memory = self.in_memory(service, holder)
        before = len(in_memory.schema.committed)
        for watcher in self.watchers:
            watcher.before_commit(service, holder, commit)
        if any(f'"{UNSTORABLE}' in event.payload_json for event in commit.events):
            raise StoreRefused("simulated: it cannot be stored", by_data=True)
        epoch = finished(in_memory.commit(commit))
        fresh = in_memory.schema.committed[before:]
        book.unnumbered += [(xid, number, event) for number, event in enumerate(fresh)]
        for watcher in self.watchers:
            watcher.after_commit(service, holder, commit, epoch, fresh)
        return epoch

    def erase(self, service: str, ids: list[str], kept_topics: list[str], at: datetime) -> int:
        """Replace payloads by tombstones, also those of events that are not numbered yet."""
        in_memory, book = self.in_memory(service, ""), self.of(service)
        erased = finished(in_memory.erase(ids, kept_topics, at))
        streams = in_memory.schema.streams
        book.unnumbered = [
            (xid, number, streams[event.aggregate_id][event.version - 1])
            for xid, number, event in book.unnumbered
        ]
        return erased

    def agent_events(self) -> list[StoredEvent]:
        """All that was recorded about agents and conversations."""
        return self.database.schema("agent").committed

    def number_log(self, service: str, limit: int) -> int:
        """Number events in the order of their transactions, below the oldest that is open."""
        book, log = self.of(service), self.database.schema(service).log
        horizon = self.horizon(book)
        book.unnumbered.sort(key=lambda entry: entry[:2])
        fresh = [entry for entry in book.unnumbered if entry[0] < horizon][:limit]
        for entry in fresh:
            log.append(replace(entry[2], position=len(log) + 1))
            book.unnumbered.remove(entry)
        return len(fresh)

    def horizon(self, book: Transactions) -> int:
        return min(book.open, default=book.begun + 1)


class Watcher:
    """Sees what the server does. Nothing of it is known to the code under test."""

    def before_commit(self, service: str, holder: str, commit: Commit) -> None: ...

    def after_commit(
        self,
        service: str,
        holder: str,
        commit: Commit,
        epoch: int | None,
        fresh: list[StoredEvent],
    ) -> None: ...

    def racing(self, service: str, holder: str, aggregate_id: str) -> None: ...

    def lease_taken(self, service: str, holder: str, key: str, epoch: int | None) -> None: ...

    def lease_released(self, service: str, key: str) -> None: ...

    def lease_freed(self, service: str, key: str, holder: str, by: str) -> None: ...

    def leases_renewed(self, service: str, held: dict[str, int]) -> None: ...


class Client:
    """A process's connections to the server."""

    def __init__(self, server: Server, name: str, lane: Lane | None) -> None:
        self.server = server
        self.network = server.network
        self.name = name
        self.lane = lane

    async def ask[T](self, execute: Callable[[], T], *, write: bool = False) -> T:
        """Have something executed. Lost is either the question or the answer."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.send(answer, execute, write)
        return await answer

    def send[T](self, answer: asyncio.Future[T], execute: Callable[[], T], write: bool) -> None:
        """Put a question on the wire."""
        if self.lane is not None and not self.lane.alive:
            return
        network, weather = self.network, self.network.weather
        fails = weather.write_fails if write else weather.read_fails
        if not network.reachable(self.name, STORE):
            waits = network.healed_in(self.name, STORE)
            if waits and network.random.random() < 0.5:
                at(waits + network.hop(), None, self.execute, answer, execute)
            self.fail(answer)
        elif network.chance(fails, "store fails"):
            self.fail(answer)
        elif write and network.chance(weather.disk_full, "disk full"):
            self.fail(answer, "disk full", soon=True)
        elif write and network.chance(weather.commit_unknown, "commit unknown"):
            self.fail(answer)
            late = network.random.random() * LATE_SECONDS_MAX * network.random.randrange(2)
            at(network.hop() + late, None, self.execute, answer, execute)
        else:
            at(network.hop(), None, self.execute, answer, execute)

    def execute[T](self, answer: asyncio.Future[T], execute: Callable[[], T]) -> None:
        """At the server: do it, and send the answer back."""
        if self.network.down[STORE]:
            self.fail(answer)
            return
        outcome: Any
        try:
            outcome, settle = execute(), set_result
        except Exception as refused:
            outcome, settle = refused, set_exception
        if isinstance(outcome, asyncio.Future):
            outcome.add_done_callback(lambda done: self.answer(answer, done))
            return
        self.reply(answer, settle, outcome)

    def answer(self, answer: asyncio.Future[Any], done: asyncio.Future[Any]) -> None:
        """What took the server a while is done."""
        problem = done.exception()
        if problem:
            self.reply(answer, set_exception, problem)
        else:
            self.reply(answer, set_result, done.result())

    def reply(self, answer: asyncio.Future[Any], settle: Settle, outcome: Any) -> None:
        """Send an answer back."""
        if self.network.reachable(STORE, self.name):
            at(self.network.hop(), self.lane, settle, answer, outcome)
        else:
            self.fail(answer)

    def fail(self, answer: asyncio.Future[Any], why: str = "lost", soon: bool = False) -> None:
        """The connection breaks; the process learns it at some time."""
        seconds = 0.001 if soon else self.network.random.random() ** 2 * FAILS_AFTER_SECONDS_MAX
        at(seconds, self.lane, set_exception, answer, StoreUnavailable(f"simulated: {why}"))


Settle = Callable[[asyncio.Future[Any], Any], None]


def set_result(answer: asyncio.Future[Any], result: Any) -> None:
    if not answer.done():
        answer.set_result(result)


def set_exception(answer: asyncio.Future[Any], problem: Any) -> None:
    if not answer.done():
        answer.set_exception(problem)


def finished[T](work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("the in-memory store waits for nothing")


class SimStore:
    """Keeps the contract of `ports.EventStore`, as `PostgresEventStore` does: what this process
    holds it knows from the answers that it got."""

    def __init__(self, client: Client, service: str, holder: str) -> None:
        self.client = client
        self.server = client.server
        self.service = service
        self.holder = holder
        self.letters = SimLetters(self)
        self.held: dict[str, int] = {}
        self.in_flight: set[str] = set()

    def in_memory(self) -> InMemoryEventStore:
        return self.server.in_memory(self.service, self.holder)

    async def load(self, aggregate_id: str, after: int = 0, *, state_version: str = "") -> History:
        def asked() -> History:
            return finished(self.in_memory().load(aggregate_id, after, state_version=state_version))

        return await self.client.ask(asked)

    async def commit(self, commit: Commit) -> int | None:
        topic = commit.events[-1].topic if commit.events else "nothing"

        def execute() -> asyncio.Future[int | None]:
            xid = self.server.of(self.service).begin()
            done: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
            random = self.client.network.random
            seconds = COMMIT_SECONDS * random.random() * (30 if random.random() < SNAGS else 1)
            at(seconds, None, self.end, done, xid, commit)
            return done

        failpoints.reach(f"before_commit.{topic}")
        try:
            with self.deciding(commit):
                epoch = await self.client.ask(execute, write=True)
        except StaleLease:
            if commit.fence:
                self.forget_lease(commit.fence)
            raise
        failpoints.reach(f"after_commit.{topic}")
        if commit.fence and commit.release_lease:
            self.forget_lease(commit.fence)
        if commit.take_lease is not None and epoch is not None:
            self.held[commit.take_lease] = epoch
        return epoch

    @contextmanager
    def deciding(self, commit: Commit) -> Iterator[None]:
        """One process makes one decision about an aggregate at a time."""
        aggregates = {event.aggregate_id for event in commit.events}
        for aggregate_id in sorted(aggregates & self.in_flight):
            for watcher in self.server.watchers:
                watcher.racing(self.service, self.holder, aggregate_id)
        self.in_flight |= aggregates
        try:
            yield
        finally:
            self.in_flight -= aggregates

    def end(self, done: asyncio.Future[int | None], xid: int, commit: Commit) -> None:
        """At the server: the transaction ends; with the server's death it never happened."""
        if self.client.network.down[STORE]:
            self.server.of(self.service).open.discard(xid)
            done.set_exception(StoreUnavailable("simulated: the server died"))
            return
        try:
            done.set_result(self.server.commit(self.service, self.holder, xid, commit))
        except Exception as refused:
            done.set_exception(refused)

    def forget_lease(self, fence: Fence) -> None:
        if self.held.get(fence.key) == fence.epoch:
            del self.held[fence.key]

    async def stored_reply(self, message_id: str) -> str | None:
        return await self.client.ask(lambda: finished(self.in_memory().stored_reply(message_id)))

    async def forget_replies(self, older_than_seconds: float) -> int:
        return await self.client.ask(
            lambda: finished(self.in_memory().forget_replies(older_than_seconds)), write=True
        )

    async def take_lease(self, key: str) -> int | None:
        taken = await self.take_over(key)
        return taken.epoch if taken else None

    async def take_over(self, key: str) -> TakenLease | None:
        def execute() -> TakenLease | None:
            taken = finished(self.in_memory().take_over(key))
            for watcher in self.server.watchers:
                epoch = taken.epoch if taken else None
                watcher.lease_taken(self.service, self.holder, key, epoch)
            return taken

        taken = await self.client.ask(execute, write=True)
        if taken is not None:
            self.held[key] = taken.epoch
        return taken

    async def succeed(self) -> int:
        if not instance_of(self.holder):
            return 0

        def execute() -> int:
            leases = self.in_memory().schema.leases
            before = {key for key, lease in leases.items() if lease.expires_at > float("-inf")}
            freed = finished(self.in_memory().succeed())
            for key in sorted(before):
                if leases[key].expires_at == float("-inf"):
                    for watcher in self.server.watchers:
                        watcher.lease_freed(self.service, key, leases[key].holder, self.holder)
            return freed

        return await self.client.ask(execute, write=True)

    async def renew_leases(self) -> set[str]:
        asked = dict(self.held)

        def execute() -> set[str]:
            in_memory = self.in_memory()
            in_memory.held = dict(asked)
            found = finished(in_memory.renew_leases())
            for watcher in self.server.watchers:
                watcher.leases_renewed(self.service, in_memory.held)
            return found

        if asked:
            found = await self.client.ask(execute, write=True)
            for key in asked.keys() - found:
                self.forget_lease(Fence(key, asked[key]))
        return set(self.held)

    async def release_lease(self, fence: Fence, *, failed: bool = False) -> None:
        self.forget_lease(fence)

        def execute() -> None:
            lease = self.in_memory().schema.leases.get(fence.key)
            finished(self.in_memory().release_lease(fence, failed=failed))
            if lease and lease.epoch == fence.epoch:
                for watcher in self.server.watchers:
                    watcher.lease_released(self.service, fence.key)

        await self.client.ask(execute, write=True)

    async def erase(self, aggregate_ids: list[str], kept_topics: list[str], at: datetime) -> int:
        return await self.client.ask(
            lambda: self.server.erase(self.service, aggregate_ids, kept_topics, at), write=True
        )

    async def import_of(self, aggregate_id: str) -> str | None:
        return await self.client.ask(lambda: finished(self.in_memory().import_of(aggregate_id)))

    async def rows_of_others(
        self, table: Table, column: str, values: Sequence[str], aggregate_id: str
    ) -> list[str]:
        return await self.client.ask(
            lambda: finished(self.in_memory().rows_of_others(table, column, values, aggregate_id))
        )

    async def begun_by_import(
        self, import_id: str, after: str, limit: int
    ) -> list[tuple[str, str]]:
        return await self.client.ask(
            lambda: finished(self.in_memory().begun_by_import(import_id, after, limit))
        )

    async def number_log(self, limit: int = LOG_PAGE_EVENTS_MAX) -> int:
        return await self.client.ask(
            lambda: self.server.number_log(self.service, limit), write=True
        )

    async def read_log(self, after: int, limit: int = LOG_PAGE_EVENTS_MAX) -> list[StoredEvent]:
        return await self.client.ask(lambda: finished(self.in_memory().read_log(after, limit)))

    async def read_upstream(
        self, upstream: str, after: int, topics: list[str], limit: int = LOG_PAGE_EVENTS_MAX
    ) -> UpstreamPage:
        return await self.client.ask(
            lambda: finished(self.in_memory().read_upstream(upstream, after, topics, limit))
        )

    async def waiting(self, upstreams: list[str]) -> Waiting:
        return await self.client.ask(lambda: finished(self.in_memory().waiting(upstreams)))

    async def progress(self, upstreams: list[str]) -> dict[str, Progress]:
        return await self.client.ask(
            lambda: finished(self.in_memory().progress(upstreams)), write=True
        )

    async def published_position(self) -> int:
        return await self.client.ask(lambda: finished(self.in_memory().published_position()))

    async def mark_published(self, position: int) -> None:
        await self.client.ask(
            lambda: finished(self.in_memory().mark_published(position)), write=True
        )

    async def position(self, upstream: str) -> int:
        return await self.client.ask(lambda: finished(self.in_memory().position(upstream)))


class SimLetters:
    """Keeps the contract of `ports.DeadLetterStore`: each question goes to the server and back."""

    def __init__(self, store: SimStore) -> None:
        self.store = store

    async def ask[T](self, question: Callable[[DeadLetterStore], Coroutine[Any, Any, T]]) -> T:
        return await self.store.client.ask(
            lambda: finished(question(self.store.in_memory().letters)), write=True
        )

    async def begin(
        self,
        message_id: str,
        *,
        known: int,
        hold_seconds: float,
        unquarantined_max: int | None = None,
    ) -> Attempt:
        options: dict[str, Any] = {"known": known, "hold_seconds": hold_seconds}
        return await self.ask(
            lambda store: store.begin(message_id, unquarantined_max=unquarantined_max, **options)
        )

    async def hold(self, message_id: str, seconds: float) -> None:
        await self.ask(lambda store: store.hold(message_id, seconds))

    async def record_failure(self, message_id: str, number: int, rest_seconds: float) -> Attempt:
        return await self.ask(lambda store: store.record_failure(message_id, number, rest_seconds))

    async def uncount(self, message_id: str) -> None:
        await self.ask(lambda store: store.uncount(message_id))

    async def forget(self, message_id: str) -> None:
        await self.ask(lambda store: store.forget(message_id))

    async def has_trouble(self, attempts: int, seconds: float) -> bool:
        return await self.ask(lambda store: store.has_trouble(attempts, seconds))

    async def forget_older(self, seconds: float) -> None:
        await self.ask(lambda store: store.forget_older(seconds))

    async def find(self, letter_id: str) -> DeadLetter | None:
        return await self.ask(lambda store: store.find(letter_id))

    async def reopen(self, letter_id: str) -> None:
        await self.ask(lambda store: store.reopen(letter_id))
