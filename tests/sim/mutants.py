"""Planted bugs. The simulator must find each: that is the measure of what it can find."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from unittest import mock

from libs.bus.aggregate_locks import AggregateLocks
from libs.bus.bounded_command_queue import CommandQueue
from libs.bus.command_dispatcher import CommandDispatcher
from libs.bus.event_consumer import EventConsumer
from libs.bus.leader_election import Leadership
from libs.bus.relay import Relay
from libs.bus.service_host import Service
from libs.contracts.bus_messages import Accepted
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import Lease
from libs.eventstore.ports import (
    Commit,
    Fence,
    Move,
    StaleLease,
    StoreRefused,
    StoreUnavailable,
    TakenLease,
)
from libs.eventstore.unit_of_work import UnitOfWork
from libs.work.reconciliation import Reconciliation
from services.agent import projections
from services.agent.domain.conversations import conversation_evolution
from services.agent.domain.conversations.active_run import ActiveRun
from services.agent.domain.conversations.approval_state import PendingCall
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.runs import run_progress, run_requests, tool_calls
from services.agent.engine.leased_conversation import LeasedConversation
from services.agent.engine.run_scheduling import RunAttempt, RunEngine
from services.agent.handlers.runs import RETRY_MEANS_SAME_SECONDS, RunHandlers, run_reply
from services.agent.handlers.waiting_conversations import ApprovalHandlers
from services.agent.policies.detach_deleted_resources import DetachDeleted
from services.agent.policies.undo_unfinished_creations import UndoUnfinishedCreations
from services.memory.policies.archives import EmptyDeletedArchives
from tests.sim import bus as sim_bus
from tests.sim import processes
from tests.sim.processes import PROCESS_OF
from tests.sim.reads import SimQueries
from tests.sim.store import Server

Patch = tuple[Any, str, Any]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A bug: what it is, and how it is planted."""

    name: str
    sentence: str
    patches: Callable[[], list[Patch]]


MUTANTS: dict[str, Mutant] = {}


def mutant(sentence: str) -> Callable[[Callable[[], list[Patch]]], Callable[[], list[Patch]]]:
    """Register what a function patches as a mutant of the function's name."""

    def register(patches: Callable[[], list[Patch]]) -> Callable[[], list[Patch]]:
        name = patches.__name__.replace("_", "-")
        MUTANTS[name] = Mutant(name, sentence, patches)
        return patches

    return register


@contextlib.contextmanager
def planted(name: str) -> Iterator[None]:
    """While it lasts the bug is there; without a name there is none."""
    with contextlib.ExitStack() as stack:
        for target, attribute, value in MUTANTS[name].patches() if name else []:
            stack.enter_context(mock.patch.object(target, attribute, value))
        yield


# The event store


@mutant("An append does not look at the version that it was decided on.")
def no_version_check() -> list[Patch]:
    real = InMemoryEventStore.append

    def append(store: InMemoryEventStore, commit: Commit) -> None:
        streams = store.schema.streams
        hidden = {
            event.aggregate_id: streams.pop(event.aggregate_id, []) for event in commit.events
        }
        real(store, commit)
        for aggregate_id, events in hidden.items():
            streams[aggregate_id] = [*events, *streams[aggregate_id]]

    return [(InMemoryEventStore, "append", append)]


@mutant("A commit under a lease does not look at the lease's epoch.")
def no_epoch_check() -> list[Patch]:
    real = InMemoryEventStore.commit

    async def commit(store: InMemoryEventStore, commit: Commit) -> int | None:
        if commit.fence and commit.fence.key not in store.schema.leases:
            store.schema.leases[commit.fence.key] = Lease(store.holder, commit.fence.epoch, 0.0)
        if commit.fence:
            newest = store.schema.leases[commit.fence.key].epoch
            commit.fence = Fence(commit.fence.key, newest)
        return await real(store, commit)

    return [(InMemoryEventStore, "commit", commit)]


@mutant("A decision on what is cached is made durable though that has gone on.")
def cache_believed() -> list[Patch]:
    async def load(work: UnitOfWork, kind: type[Any], aggregate_id: str) -> Any:
        if aggregate_id not in work.loaded:
            org, repository = work.context.org, work.repository
            cached = repository.claim(kind, aggregate_id, org=org) if work.trusting else None
            fresh = cached or await repository.load(kind, aggregate_id, org=org)
            work.loaded[aggregate_id] = fresh
        return work.loaded[aggregate_id]

    return [(UnitOfWork, "load", load)]


@mutant("A handled message is not remembered in the inbox.")
def no_inbox() -> list[Patch]:
    real = InMemoryEventStore.commit

    async def commit(store: InMemoryEventStore, commit: Commit) -> int | None:
        commit.inbox = None
        return await real(store, commit)

    return [(InMemoryEventStore, "commit", commit)]


@mutant("The inbox remembers that a message was handled, but not what it was answered.")
def reply_not_stored() -> list[Patch]:
    real = InMemoryEventStore.commit

    async def commit(store: InMemoryEventStore, commit: Commit) -> int | None:
        epoch = await real(store, commit)
        if commit.inbox:
            empty = Accepted().model_dump_json()
            store.schema.inbox[commit.inbox.message_id] = empty
        return epoch

    return [(InMemoryEventStore, "commit", commit)]


@mutant("The log is numbered by position alone, without waiting for older open transactions.")
def no_horizon() -> list[Patch]:
    real = Server.number_log
    passed: dict[tuple[int, str], int] = {}

    def number_log(server: Server, service: str, limit: int) -> int:
        book, place = server.of(service), (id(server), service)
        behind = passed.get(place, 0)
        book.unnumbered = [entry for entry in book.unnumbered if entry[0] > behind]
        passed[place] = max((xid for xid, _, _ in book.unnumbered), default=behind)
        return real(server, service, limit)

    return [
        (Server, "number_log", number_log),
        (Server, "horizon", lambda self, book: book.begun + 1),
    ]


@mutant("Leases run out by the clock of the process that asks, not by the store's.")
def wall_clock_lease() -> list[Patch]:
    real = InMemoryEventStore.take_over

    async def take_over(store: InMemoryEventStore, key: str) -> TakenLease | None:
        skews = [
            process.clock.skew for process in PROCESS_OF.values() if process.holder == store.holder
        ]
        lease = store.schema.leases.get(key)
        if lease and skews and lease.expires_at < store.database.clock() + skews[0]:
            lease.expires_at = float("-inf")
        return await real(store, key)

    return [(InMemoryEventStore, "take_over", take_over)]


@mutant("An aggregate that a failed commit has changed stays in the cache.")
def cache_after_failed_commit() -> list[Patch]:
    real = UnitOfWork.commit

    async def commit(work: UnitOfWork, **how: Any) -> int | None:
        try:
            return await real(work, **how)
        except Exception:
            for aggregate in work.loaded.values():
                work.repository.keep(aggregate)
            raise

    return [(UnitOfWork, "commit", commit)]


# Commands


@mutant("A command is answered before its commit is durable.")
def ack_before_commit() -> list[Patch]:
    real = UnitOfWork.commit

    async def commit(work: UnitOfWork, **how: Any) -> int | None:
        if how.get("reply") is None:
            return await real(work, **how)
        again = asyncio.get_running_loop().create_task(real(work, **how))
        again.add_done_callback(lambda done: done.cancelled() or done.exception())
        return None

    return [(UnitOfWork, "commit", commit)]


@mutant("A client's retry without a key starts a second run.")
def retry_starts_again() -> list[Patch]:
    real = RunHandlers.start_run

    async def start_run(handlers: RunHandlers, command: Any, work: UnitOfWork) -> Any:
        return await real(handlers, command.model_copy(update={"retry": False}), work)

    return [(RunHandlers, "start_run", start_run)]


@mutant("The blocks of an agent whose creation was interrupted stay for ever.")
def creation_not_undone() -> list[Patch]:
    async def sweep(creations: UndoUnfinishedCreations) -> None:
        return None

    return [(UndoUnfinishedCreations, "sweep", sweep)]


@mutant("A block that was deleted in the moment in which an agent got it stays with that agent.")
def block_came_too_late() -> list[Patch]:
    async def sweep(policies: DetachDeleted) -> None:
        return None

    return [(DetachDeleted, "sweep", sweep)]


@mutant("A reconciliation looks at everybody once, when its process starts.")
def all_looked_at_once() -> list[Patch]:
    return [
        (kind, "every_seconds", math.inf)
        for kind in (Reconciliation, EmptyDeletedArchives, UndoUnfinishedCreations)
    ]


@mutant("A reconciliation does not look at those that took something up lately.")
def nobody_suspected() -> list[Patch]:
    def suspect(policy: Reconciliation[Any], key: str) -> None:
        """Suspect nobody."""

    return [(Reconciliation, "suspect", suspect)]


@mutant("A retry looks for its first try before it reads the conversation.")
def retry_looks_too_early() -> list[Patch]:
    real = RunHandlers.start_run

    async def start_run(handlers: RunHandlers, command: Any, work: UnitOfWork) -> Any:
        if not command.retry:
            return await real(handlers, command, work)
        since = command.run.created_at - timedelta(seconds=RETRY_MEANS_SAME_SECONDS)
        look = handlers.ports.queries.latest_run
        earlier = await look(
            work.context.org,
            command.agent_id,
            command.conversation,
            command.request_hash,
            since,
            command.earlier_runs,
        )
        if earlier:
            return run_reply(earlier, command.request_hash, sleeptime=False)
        return await real(handlers, command.model_copy(update={"retry": False}), work)

    return [(RunHandlers, "start_run", start_run)]


# Driving runs


@mutant("Nobody takes over the turns of a process that died.")
def no_sweeper() -> list[Patch]:
    async def sweep(drivers: RunEngine) -> None:
        return None

    return [(RunEngine, "sweep", sweep)]


@mutant("An interrupted tool call is recorded, but the model is shown no result.")
def unpaired_call() -> list[Patch]:
    real = tool_calls.interrupt

    def interrupt(talk: Conversation, *what: Any, **how: Any) -> None:
        with mock.patch.object(tool_calls, "show"):
            real(talk, *what, **how)

    return [(tool_calls, "interrupt", interrupt)]


@mutant("A tool that may not run twice is run again after a crash.")
def tool_runs_twice() -> list[Patch]:
    return [(processes, "but_keeping", lambda idempotent: lambda router, name, design: True)]


@mutant("Whoever takes a turn over trusts its cache instead of reading what was recorded.")
def take_over_without_reload() -> list[Patch]:
    def just_committed(driver: RunAttempt) -> Conversation | None:
        claim = driver.ports.repository.claim
        return claim(Conversation, driver.fence.key, org=driver.context.org)

    return [(RunAttempt, "just_committed", just_committed)]


@mutant("The lease is given back before the last commit of a run, which then goes without it.")
def lease_released_early() -> list[Patch]:
    real = UnitOfWork.commit

    async def commit(work: UnitOfWork, **how: Any) -> int | None:
        if how.get("release_lease") and work.loaded:
            await work.repository.store.release_lease(how["fence"])
            return await real(work, reply=how.get("reply"))
        return await real(work, **how)

    return [(UnitOfWork, "commit", commit)]


@mutant("A run that waits behind another is forgotten when that ends.")
def queued_run_forgotten() -> list[Patch]:
    real = run_progress.complete

    def complete(talk: Conversation, stop_reason: str, *, at: Any) -> None:
        with mock.patch.object(run_progress, "start_next"):
            real(talk, stop_reason, at=at)

    return [(run_progress, "complete", complete)]


@mutant("A commit whose outcome is unknown counts as done.")
def unknown_is_done() -> list[Patch]:
    real = UnitOfWork.commit

    async def commit(work: UnitOfWork, **how: Any) -> int | None:
        try:
            return await real(work, **how)
        except StoreUnavailable:
            if how.get("fence") is None:
                raise
            return None

    return [(UnitOfWork, "commit", commit)]


@mutant("A commit whose outcome is unknown counts as failed; nobody reads what is stored.")
def unknown_is_failed() -> list[Patch]:
    real = UnitOfWork.commit

    async def commit(work: UnitOfWork, **how: Any) -> int | None:
        if how.get("fence") is None or not work.loaded:
            return await real(work, **how)
        try:
            return await real(work, **how)
        except StoreUnavailable:
            for aggregate in work.loaded.values():
                work.repository.keep(aggregate)
            raise

    return [(UnitOfWork, "commit", commit)]


@mutant("A process that starts frees what all others hold, not only what the one before it held.")
def frees_everybody() -> list[Patch]:
    async def succeed(store: InMemoryEventStore) -> int:
        for lease in store.schema.leases.values():
            if lease.holder != store.holder:
                lease.expires_at = float("-inf")
        return len(store.schema.leases)

    return [(InMemoryEventStore, "succeed", succeed)]


@mutant("A zombie goes on writing although its lease is lost.")
def zombie_writes() -> list[Patch]:
    real = UnitOfWork.commit

    async def commit(work: UnitOfWork, **how: Any) -> int | None:
        try:
            return await real(work, **how)
        except StaleLease:
            return await real(work)

    return [(UnitOfWork, "commit", commit), (RunEngine, "leases_held", lambda drivers, held: None)]


@mutant("Leases are not renewed.")
def no_renewal() -> list[Patch]:
    async def renew(service: Service) -> None:
        await service.clock.sleep(3.0)

    return [(Service, "renew", renew)]


@mutant("A cancelled run leaves its open tool calls without results.")
def cancel_leaves_calls() -> list[Patch]:
    return [(run_requests, "interrupt_all", lambda talk, why, **how: None)]


@mutant("Whoever takes a streamed step over uses the numbers of the attempt that was lost.")
def numbers_used_twice() -> list[Patch]:
    return [(RunAttempt, "next_number", lambda driver, active: active.last_number + 1)]


@mutant("The lease of a deleted conversation is not cleared away.")
def deleted_lease_left() -> list[Patch]:
    real = SimQueries.orphaned_runs

    async def orphaned_runs(queries: SimQueries, but: list[str]) -> list[Any]:
        there = {row["conversation_id"] for row in queries.data.rows("messages")}
        return [orphan for orphan in await real(queries, but) if orphan.id in there]

    return [(SimQueries, "orphaned_runs", orphaned_runs)]


@mutant("Nobody ends what waits for a client that never answers.")
def approval_never_ends() -> list[Patch]:
    async def sweep(handlers: ApprovalHandlers) -> None:
        return None

    return [(ApprovalHandlers, "sweep", sweep)]


@mutant("An answer that comes while calls wait is taken for one to all of them.")
def one_answer_for_all() -> list[Patch]:
    def waits(run: ActiveRun) -> bool:
        gated = [call for call in run.calls if call.call.gated]
        return bool(gated) and all(call.waits_for_client for call in gated)

    return [
        (PendingCall, "approved", property(lambda pending: True)),
        (ActiveRun, "waits_for_client", property(waits)),
    ]


# The relay and the consumers


async def move_on(consumer: EventConsumer, position: int, seen_up_to: int) -> None:
    """Move a consumer's position, unless another process did."""
    with contextlib.suppress(StaleLease):
        await consumer.store.commit(Commit(move=Move(consumer.upstream, position, seen_up_to)))


@mutant("The relay remembers that it published before it did.")
def relay_skips() -> list[Patch]:
    async def publish_page(relay: Relay) -> bool:
        await relay.store.number_log()
        events = await relay.store.read_log(relay.published)
        if not events:
            return False
        relay.published = events[-1].position
        await relay.store.mark_published(relay.published)
        await relay.bus.publish_events(relay.service, events)
        return False

    return [(Relay, "publish_page", publish_page)]


@mutant("The relay publishes what was committed last first.")
def relay_turns_order() -> list[Patch]:
    async def publish_page(relay: Relay) -> bool:
        await relay.store.number_log()
        events = await relay.store.read_log(relay.published)
        if not events:
            return False
        await relay.bus.publish_events(relay.service, events[::-1])
        await relay.store.mark_published(events[-1].position)
        relay.published = events[-1].position
        return False

    return [(Relay, "publish_page", publish_page)]


@mutant("A consumer moves its position before it reacts.")
def moves_first() -> list[Patch]:
    async def react_to_page(consumer: EventConsumer) -> bool:
        store, upstream = consumer.store, consumer.upstream
        position = await store.position(upstream)
        page = await store.read_upstream(upstream, position, list(consumer.reactions))
        if page.seen_up_to == position:
            return False
        await move_on(consumer, position, page.seen_up_to)
        for stored in page.events:
            await consumer.react(stored)
        return bool(page.events)

    return [(EventConsumer, "react_to_page", react_to_page)]


@mutant("A consumer reacts to the newest event only and passes over the gap before it.")
def takes_gaps() -> list[Patch]:
    async def react_to_page(consumer: EventConsumer) -> bool:
        store, upstream = consumer.store, consumer.upstream
        position = await store.position(upstream)
        page = await store.read_upstream(upstream, position, list(consumer.reactions))
        if page.seen_up_to == position:
            return False
        for stored in page.events[-1:]:
            await consumer.react(stored)
        await move_on(consumer, position, page.seen_up_to)
        return bool(page.events)

    return [(EventConsumer, "react_to_page", react_to_page)]


@mutant("A consumer that was overtaken lets go of its job, but not of the lease.")
def lease_only_forgotten() -> list[Patch]:
    async def give_back(leadership: Leadership) -> None:
        leadership.epoch = None

    return [(Leadership, "give_back", give_back)]


# Nobody can stop the others


@mutant("Commands to one aggregate do not wait for each other.")
def commands_race() -> list[Patch]:
    async def acquire(locks: AggregateLocks, key: str, *, first: bool = False) -> None:
        return None

    return [(AggregateLocks, "acquire", acquire), (AggregateLocks, "release", lambda *_: None)]


@mutant("An attempt at a run decides beside the commands to its agent.")
def driver_races() -> list[Patch]:
    return [(LeasedConversation, "lock", lambda leased: contextlib.nullcontext())]


@mutant("What the store will never take counts as an outage and is tried again.")
def hopeless_is_tried_again() -> list[Patch]:
    real = CommandDispatcher.answer

    async def answer(shell: CommandDispatcher, incoming: Any) -> Any:
        try:
            return await real(shell, incoming)
        except StoreRefused as refused:
            raise StoreUnavailable(str(refused)) from refused

    return [(CommandDispatcher, "answer", answer)]


@mutant("A store that is away, or full, counts as the fault of the command.")
def outage_is_refused() -> list[Patch]:
    real = CommandDispatcher.answer

    async def answer(shell: CommandDispatcher, incoming: Any) -> Any:
        try:
            return await real(shell, incoming)
        except StoreUnavailable as outage:
            raise StoreRefused(str(outage), by_data=True) from outage

    return [(CommandDispatcher, "answer", answer)]


@mutant("An answer of the model that the store will never take is stored again and again.")
def hopeless_answer_is_tried_again() -> list[Patch]:
    real = UnitOfWork.commit

    async def commit(work: UnitOfWork, **how: Any) -> int | None:
        try:
            return await real(work, **how)
        except StoreRefused as refused:
            if how.get("fence") is None:
                raise
            raise StoreUnavailable(str(refused)) from refused

    return [(UnitOfWork, "commit", commit)]


@mutant("A run that was cancelled while it waited has its turn all the same.")
def cancelled_run_starts() -> list[Patch]:
    return [(conversation_evolution, "leave_queue", lambda talk, run_ids: None)]


@mutant("A command that is done with still counts as waiting.")
def queue_never_shrinks() -> list[Patch]:
    return [(CommandQueue, "forget", lambda queue, incoming: None)]


@mutant("That there is no room for one copy of a command counts as the answer to all of them.")
def busy_speaks_for_all_copies() -> list[Patch]:
    return [(sim_bus, "is_answer", lambda reply, *, sent_again: True)]


@mutant("A projection counts by itself what its event says, so a rebuild makes other rows.")
def projection_counts_by_itself() -> list[Patch]:
    real, places = projections.message_row, itertools.count(1)

    def message_row(event: Any, org: str) -> dict[str, Any]:
        return {**real(event, org), "position": next(places)}

    return [(projections, "message_row", message_row)]
