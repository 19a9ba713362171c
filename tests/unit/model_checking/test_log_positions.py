"""The relay of a log and the consumers that follow it, in every order of what can happen.

Two processes relay; in another world two react. The leader's lease may run out while it stands
still, a process may die, an answer may be lost, and the bus may lose its store. What runs is the
product: `libs/bus/relay.py`, `libs/bus/event_consumer.py`, `libs/bus/leader_election.py` and the
in-memory store. Notifications that are lost or doubled are no faults of their own here: a process
has a turn whenever it can.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Hashable
from typing import Any

import pytest

from libs.bus.event_consumer import EventConsumer
from libs.bus.ports import BusUnavailable
from libs.bus.relay import Relay
from libs.contracts.bus_messages import Context, Event
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import InMemoryDatabase, Lease
from libs.eventstore.ports import Commit, StoredEvent, StoreUnavailable
from tests.clock_and_ids import ManualClock
from tests.contract.ledger import SERVICE, MoneyDeposited, opened
from tests.contract.ledger_follower import money
from tests.sim.mutants import planted
from tests.unit.model_checking.explorer import explore, repeat
from tests.unit.model_checking.stepping import UNANSWERED, Process, Steps

FAULTS_MAX = 2
# The consumers do not follow what happens in the middle: they see a hole there.
COMMITS = (money("a", 1, 5), Commit([opened("b")]), money("a", 2, 7))
# What is read is read together with the change before it.
CHANGES = ("take_lease", "release_lease", "number_log", "mark_published", "commit")
FOLLOWED = {1: "a.1", 3: "a.2"}


class AtOnce:
    """A notification that is always there."""

    async def wait(self, seconds: float) -> None:
        """Nothing to wait for."""

    def notify(self) -> None:
        """It does not change that."""


class Leader(Process):
    """A process that does its job as long as it believes that it is the leader."""

    def __init__(self, store: InMemoryEventStore) -> None:
        super().__init__()
        self.own_store = store
        self.store: Any = Steps(store, self, StoreUnavailable, CHANGES)
        self.job: Any = None

    @property
    def memory(self) -> Hashable:
        """What outlives a turn."""
        numbers = [(name, n) for name, n in vars(self.job).items() if isinstance(n, int | None)]
        held = tuple(self.own_store.held.items())
        return tuple(numbers), self.job.leadership.epoch, held


class Leaders(ABC):
    """Two processes, either of which may lead, and a log that grows."""

    service = SERVICE
    may_be_lost: tuple[str, ...]
    committed_before = 0
    committed_in_the_end = len(COMMITS)

    def __init__(self) -> None:
        self.database = InMemoryDatabase(lambda: 0.0)
        self.writer = InMemoryEventStore(self.database, SERVICE, "writer")
        self.log = self.writer.schema
        self.own = self.database.schema(self.service)
        self.faults = self.committed = 0
        self.processes = {name: self.begun(name) for name in ("A", "B")}
        for _ in range(self.committed_before):
            self.commit()

    @abstractmethod
    def begun(self, name: str) -> Leader:
        """A process that has just begun."""

    def steps(self) -> dict[str, Callable[[], None]]:
        steps: dict[str, Callable[[], None]] = {}
        may_fail = self.faults < FAULTS_MAX
        faults = dict.fromkeys(self.may_be_lost, (UNANSWERED,)) if may_fail else {}
        for name, process in self.processes.items():
            for step, how in process.steps(name, faults).items():
                steps[step] = lambda process=process, how=how: self.go_on(process, how)
            if process.is_idle:
                steps[f"{name} has a turn"] = lambda each=process: each.begin(
                    self.turn(each), each.memory
                )
            elif may_fail:
                steps[f"{name} dies"] = lambda name=name: self.die(name)
        if self.committed < self.committed_in_the_end:
            steps["an event is committed"] = self.commit
        if may_fail and any(lease.expires_at >= 0 for lease in self.leases):
            steps["the lease runs out"] = self.run_out
        return steps

    async def turn(self, process: Leader) -> None:
        await process.job.turn()

    @property
    def leases(self) -> list[Lease]:
        return [*self.own.leases.values()]

    @property
    def idle(self) -> bool:
        return all(process.is_idle for process in self.processes.values())

    def go_on(self, process: Leader, how: str) -> None:
        self.faults += how == UNANSWERED
        process.go_on(how)

    def die(self, name: str) -> None:
        """Another process begins in its place, and what it held is free."""
        self.faults += 1
        for lease in self.leases:
            if lease.holder == name:
                lease.expires_at = float("-inf")
        self.processes[name] = self.begun(name)

    def run_out(self) -> None:
        self.faults += 1
        for lease in self.leases:
            lease.expires_at = float("-inf")

    def commit(self) -> None:
        at_once(self.writer.commit(COMMITS[self.committed]))
        self.committed += 1

    def state(self) -> Hashable:
        leases = tuple((lease.epoch, lease.expires_at) for lease in self.leases)
        holders = {lease.holder for lease in self.leases}
        processes = frozenset(  # which of the two is which does not matter
            (each.call, tuple(each.seen), each.memory, each.own_store.holder in holders)
            for each in self.processes.values()
        )
        stored = (
            self.log.published,
            len(self.log.log),
            repr((self.own.positions, self.own.tables)),
        )
        return leases, processes, stored, self.committed, self.faults


def at_once(call: Coroutine[Any, Any, Any]) -> None:
    """Make a call of a store that waits for nothing."""
    with pytest.raises(StopIteration):
        call.send(None)


class Bus:
    """What the bus has of the log; a position that it has already, it drops."""

    def __init__(self) -> None:
        self.kept: list[int] = []
        self.has_had: set[int] = set()

    async def publish_events(self, service: str, events: list[StoredEvent]) -> None:
        self.kept += [event.position for event in events if event.position not in self.kept]
        self.has_had |= {*self.kept}


class Relays(Leaders):
    """Two processes that publish a log."""

    may_be_lost = ("publish_events",)
    committed_before, committed_in_the_end = 1, 2

    def __init__(self) -> None:
        self.bus = Bus()
        self.was_wiped = False
        super().__init__()

    def begun(self, name: str) -> Leader:
        process = Leader(InMemoryEventStore(self.database, SERVICE, name))
        bus: Any = Steps(self.bus, process, BusUnavailable)
        process.job = Relay(process.store, bus, SERVICE)
        process.job.notification = AtOnce()
        return process

    def steps(self) -> dict[str, Callable[[], None]]:
        steps = super().steps()
        if self.bus.kept and self.faults < FAULTS_MAX:
            steps["the bus loses its store"] = self.wipe
        return steps

    async def turn(self, process: Leader) -> None:
        """A turn; before it what `Service.look_at_logs` does."""
        process.seen.append(await process.own_store.waiting([]))
        if process.seen[-1].relay:
            process.job.look_again()
        await super().turn(process)

    def wipe(self) -> None:
        self.faults += 1
        self.bus.kept, self.was_wiped = [], True

    def state(self) -> Hashable:
        bus = (tuple(self.bus.kept), frozenset(self.bus.has_had), self.was_wiped)
        return super().state(), bus

    def broken(self) -> str:
        if not self.was_wiped and self.bus.kept != [*range(1, len(self.bus.kept) + 1)]:
            return "the bus has the log in its order, without holes"
        if not self.bus.has_had >= {*range(1, self.log.published + 1)}:
            return "what counts as published was published"
        return ""

    def has_ended_well(self) -> bool:
        return self.idle and self.log.published == self.committed_in_the_end


class Consumers(Leaders):
    """Two processes that follow a log, all of which has its positions."""

    service = "follower"
    may_be_lost = ("react", "commit")
    committed_before = 2

    def __init__(self) -> None:
        self.reacted_to: list[str] = []  # commands of one id take effect once
        super().__init__()

    def begun(self, name: str) -> Leader:
        process = Leader(InMemoryEventStore(self.database, self.service, name))
        react = Steps(self, process, BusUnavailable).react
        nothing: Any = None
        process.store.letters = Steps(process.own_store.letters, process, StoreUnavailable, ())
        process.job = EventConsumer(
            self.service, process.store, nothing, SERVICE, {MoneyDeposited: react}, ManualClock()
        )
        process.job.notification = AtOnce()
        return process

    async def react(self, event: Event, context: Context) -> None:
        if context.message_id not in self.reacted_to:
            self.reacted_to.append(context.message_id)

    def commit(self) -> None:
        super().commit()
        at_once(self.writer.number_log())

    def state(self) -> Hashable:
        return super().state(), tuple(self.reacted_to)

    def broken(self) -> str:
        position = self.own.positions.get(SERVICE, 0)
        passed = {name for place, name in FOLLOWED.items() if place <= position}
        if self.reacted_to != [*FOLLOWED.values()][: len(self.reacted_to)]:
            return "events are reacted to in the order of the log"
        if not passed <= {*self.reacted_to}:
            return "no event is passed that was not reacted to"
        return ""

    def has_ended_well(self) -> bool:
        return self.idle and self.own.positions.get(SERVICE) == len(COMMITS)


@pytest.mark.parametrize("world", [Relays, Consumers])
def test_nothing_is_left_out_or_out_of_order_and_all_is_done_in_the_end(
    world: type[Relays | Consumers],
) -> None:
    explored = explore(world)
    assert not explored.broken, explored
    assert explored.states > 500


@pytest.mark.parametrize(
    ("bug", "world", "broken", "shortest"),
    [
        ("relay-skips", Relays, "what counts as published was published", 4),
        ("relay-turns-order", Relays, "the bus has the log in its order, without holes", 5),
        ("moves-first", Consumers, "no event is passed that was not reacted to", 3),
        ("takes-gaps", Consumers, "events are reacted to in the order of the log", 4),
    ],
)
def test_a_planted_bug_of_positions_is_found_with_the_shortest_way_to_it(
    bug: str, world: type[Relays | Consumers], broken: str, shortest: int
) -> None:
    with planted(bug):
        explored = explore(world)
    assert explored.broken == broken, explored
    assert len(explored.trace) == shortest, explored.trace


def test_an_event_that_a_frozen_relay_numbered_before_it_died_is_published() -> None:
    """A relay reads the log up to the first event, the one before it wakes up and numbers the
    second one. The first trace without a good end, before `Relay.look_again`."""
    frozen = ("A has a turn", "A: take_lease is done", "B has a turn", "the lease runs out")
    read = ("B: take_lease is done", "B: number_log is done", "an event is committed")
    world = repeat(Relays, (*frozen, *read, "A: number_log is done", "A dies"))
    assert isinstance(world, Relays)
    while not world.processes["B"].is_idle or world.log.published < 2:
        [step] = {"B has a turn", f"B: {world.processes['B'].call} is done"} & world.steps().keys()
        world.steps()[step]()
    assert world.bus.kept == [1, 2]
