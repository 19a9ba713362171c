"""Decisions that take locks in different orders do not wait for each other for ever."""

from __future__ import annotations

import asyncio

import pytest

from libs.bus import command_retries
from libs.bus.aggregate_locks import AggregateLocks
from libs.bus.bounded_command_queue import CommandQueue
from libs.bus.clock_and_ids import SystemClock
from libs.bus.command_retries import UNQUARANTINED_ATTEMPTS_MAX, CommandRetries
from libs.bus.ports import IncomingCommand, TryAgain
from libs.bus.suspect_quarantine import Quarantine
from libs.contracts.bus_messages import Accepted, Context
from libs.eventstore import unit_of_work
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.unit_of_work import LockTaken, Repository
from tests.waiting import wait_for


async def test_a_deletion_and_a_fork_that_wait_for_each_other_both_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An agent is deleted with its own conversation and with the fork of that, while the command of
    the fork, which came again, waits for the agent's own."""
    monkeypatch.setattr(unit_of_work, "LOCK_SECONDS_MAX", 0.05)
    store = InMemoryEventStore(InMemoryDatabase(lambda: 0.0), "agent", "p-1")
    repository = Repository(store, "agent", lambda *_: None)
    locks, both = AggregateLocks(), asyncio.Barrier(2)

    async def decide(target: str, *others: str) -> int:
        """As commands are handled: again where somebody else is first; how often it took."""
        for decisions in range(1, 20):
            async with locks.hold(target):
                work = repository.work(Context(target, org="org-1"))
                try:
                    for number, other in enumerate(others):
                        if number == len(others) - 1 and decisions == 1:
                            await both.wait()
                        await work.hold(locks.hold(other))
                    return decisions
                except LockTaken:
                    pass
                finally:
                    await work.release()
            await asyncio.sleep(0.01 * decisions)
        raise AssertionError("it never was the only one")

    async with asyncio.timeout(10):
        took = await asyncio.gather(decide("agent", "own", "fork"), decide("fork", "own"))
    assert max(took) > 1
    assert locks.queues == {}


async def test_a_suspect_gives_way_to_one_that_has_what_it_needs_and_waits_for_quarantine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both were delivered often. The deletion of an agent is let into quarantine and needs the
    conversation; a message to that is being handled, and needs to be let into quarantine."""
    monkeypatch.setattr(unit_of_work, "LOCK_SECONDS_MAX", 0.05)
    monkeypatch.setattr(command_retries, "BUSY_SECONDS", 0.05)
    store = InMemoryEventStore(InMemoryDatabase(lambda: 0.0), "agent", "p-1")
    repository = Repository(store, "agent", lambda *_: None)
    locks, clock = AggregateLocks(), SystemClock()
    deciding, message_decided = asyncio.Event(), asyncio.Event()

    async def decide(incoming: IncomingCommand) -> Accepted:
        work = repository.work(incoming.context)
        try:
            if incoming.target == "agent":
                deciding.set()
                await wait_for(
                    "the message is being handled, or is answered",
                    lambda: "conversation" in locks.queues or message_decided.is_set(),
                )
                await work.hold(locks.hold("conversation"))
            else:
                message_decided.set()
            return Accepted()
        finally:
            await work.release()

    retries = CommandRetries("agent", store, decide, clock, Quarantine())
    queue = CommandQueue(retries.answer, locks, clock)

    async def delivered(target: str) -> int:
        """Until it is answered; how often it took."""
        for deliveries in range(1, 20):
            context = Context(f"about {target}", org="org-1")
            incoming = IncomingCommand("agent.x", b"{}", context, target, again=True)
            try:
                await queue.answer(incoming)
                return deliveries
            except TryAgain as later:
                await asyncio.sleep(later.seconds)
        raise AssertionError("it was never answered")

    for target in ("agent", "conversation"):
        for _ in range(UNQUARANTINED_ATTEMPTS_MAX):
            await store.letters.begin(f"about {target}", known=1, hold_seconds=0)
    async with asyncio.timeout(10):
        deleted = asyncio.create_task(delivered("agent"))
        await deciding.wait()
        answered = asyncio.create_task(delivered("conversation"))
        assert (await answered, await deleted) == (1, 2)
    assert locks.queues == {}
