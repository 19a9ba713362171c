"""One work is done under a lease, by either of two processes, in every order that can happen.

A work has two steps, and each is recorded under the lease. A process may stand still while its
lease runs out, and wake up as a zombie; it may die; a commit may be lost, or made and its answer
lost. What runs is the product: `libs/work/leased_work.py` (an attempt), `libs/work/work_lease.py`
(its commits), and the in-memory store, whose contract Postgres keeps
(`tests/contract/test_eventstore.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

import pytest

from libs.bus.process_ports import ProcessPorts
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.ports import Fence, StoreUnavailable, instance_of
from libs.eventstore.unit_of_work import Repository, UnitOfWork
from libs.work.leased_work import LeasedWork
from libs.work.work_lease import DueWork, WorkLease
from tests.clock_and_ids import CountingIds
from tests.contract.ledger import AT, SERVICE, Account, MoneyDeposited, context, project
from tests.sim.mutants import planted
from tests.unit.given import NOW
from tests.unit.model_checking.explorer import explore
from tests.unit.model_checking.stepping import LOST, UNANSWERED, Pause, Process, Steps

WORK = DueWork("work-1", "org-1")
STEPS = 2
FAULTS_MAX = 2


class StepsOfWork(LeasedWork[DueWork]):
    """A work whose history counts its steps."""

    async def due(self) -> Sequence[DueWork]:
        raise AssertionError("the explorer says when a process looks")

    async def give_up(self, unit: UnitOfWork, work: DueWork, reason: str) -> None:
        raise AssertionError("so many faults are not explored")

    async def attempt(self, lease: WorkLease[DueWork]) -> None:
        while not await lease.record(next_step, release=lambda is_last: is_last):
            pass


async def next_step(unit: UnitOfWork) -> bool:
    """Record the step after those that are recorded; whether it is the last one."""
    account = await unit.load(Account, WORK.id)
    if account.state.cents < STEPS:
        account.record(MoneyDeposited, at=AT, cents=1, currency="EUR")
    return account.state.cents == STEPS


class Alone:
    """The quarantine of a process that does one thing at a time."""

    waiting = 0

    async def enter(self) -> Alone:
        return self

    def limit(self, *_: object) -> None:
        """It is alone, and may stay."""

    def give_back(self) -> None:
        """Nobody waits."""


class Worker(Process):
    """A process that takes the work when nobody does it."""

    def __init__(self, database: InMemoryDatabase, holder: str) -> None:
        super().__init__()
        self.own_store = InMemoryEventStore(database, SERVICE, holder)
        self.store = Steps(self.own_store, self, StoreUnavailable)
        self.store.letters = Steps(self.own_store.letters, self, StoreUnavailable)
        repository = Repository(self.store, SERVICE, project)  # type: ignore[arg-type]
        ports = ProcessPorts(
            repository=repository,
            bus=None,  # type: ignore[arg-type]
            clock=self,
            ids=CountingIds(),
            committed=lambda: None,
            quarantine=Alone(),  # type: ignore[arg-type]
        )
        self.work_of_kind = StepsOfWork(ports)
        self.ports = ports
        self.epoch = 0

    now = staticmethod(lambda: NOW)
    monotonic = staticmethod(lambda: 0.0)

    async def sleep(self, seconds: float) -> None:
        """Time passes when the explorer says so."""
        await Pause(self, "sleep")

    async def look(self) -> None:
        """What `LeasedWork.begin_due` and `begin` do, in one task."""
        if taken := await self.store.take_over(WORK.id):
            self.epoch = taken.epoch
            fence = Fence(WORK.id, taken.epoch)
            over = taken.taken_over
            lease = WorkLease(WORK, fence, self.ports, context("sweep"), taken_over=over)
            await self.work_of_kind.run(lease, self.work_of_kind.attempt)

    def lease_of(self, holder: str) -> str:
        """Whose lease this is: this process's, or that of the one before it."""
        own = self.own_store.holder
        return (
            "own" if own == holder else "predecessor's" * (instance_of(own) == instance_of(holder))
        )

    @property
    def memory(self) -> Hashable:
        cached = self.ports.repository.cache.get(WORK.id)
        return cached.version if cached else 0, tuple(self.own_store.held.items())


class LeasedSteps:
    """Two processes, and one work."""

    def __init__(self) -> None:
        self.database = InMemoryDatabase(lambda: 0.0)
        self.schema = self.database.schema(SERVICE)
        self.lives = {"A": 1, "B": 1}
        self.processes = {name: self.born(name) for name in self.lives}
        self.faults = 0
        self.written: list[tuple[int, int]] = []  # under which epoch, and which was the newest

    def born(self, name: str) -> Worker:
        return Worker(self.database, f"{name}/{self.lives[name]}")

    def steps(self) -> Mapping[str, Callable[[], None]]:
        steps: dict[str, Callable[[], None]] = {}
        may_fail = self.faults < FAULTS_MAX
        faults = {"commit": (LOST, UNANSWERED)} if may_fail else {}
        for name, process in self.processes.items():
            for step, how in process.steps(name, faults).items():
                steps[step] = lambda process=process, how=how: self.go_on(process, how)
            if process.is_idle and len(self.history) < STEPS:
                steps[f"{name} looks for work"] = lambda each=process: each.begin(
                    each.look(), each.memory
                )
            if not process.is_idle and may_fail:
                steps[f"{name} dies, and another begins in its place"] = lambda name=name: self.die(
                    name
                )
        lease = self.schema.leases.get(WORK.id)
        if lease and lease.expires_at >= 0 and may_fail:
            steps["the lease runs out"] = self.run_out
        return steps

    @property
    def history(self) -> list[int]:
        """The versions of the steps that are recorded."""
        return [event.version for event in self.schema.streams.get(WORK.id, [])]

    def go_on(self, process: Worker, how: str) -> None:
        self.faults += how in (LOST, UNANSWERED)
        before, newest = len(self.history), self.schema.epochs
        process.go_on(how)
        if len(self.history) > before:
            self.written.append((process.epoch, newest))

    def die(self, name: str) -> None:
        self.faults += 1
        self.lives[name] += 1
        self.processes[name] = self.born(name)
        self.processes[name].begin(self.processes[name].own_store.succeed())

    def run_out(self) -> None:
        self.faults += 1
        self.schema.leases[WORK.id].expires_at = float("-inf")

    def state(self) -> Hashable:
        lease = self.schema.leases.get(WORK.id)
        holder = lease.holder if lease else ""
        processes = frozenset(  # which of the two is which does not matter
            (each.call, tuple(each.seen), each.memory, each.epoch, each.lease_of(holder))
            for each in self.processes.values()
        )
        held = (lease.epoch, lease.expires_at, lease.taken_over) if lease else ()
        return held, repr(self.schema.tables), processes, self.faults, tuple(self.written)

    def broken(self) -> str:
        if self.history != [*range(1, len(self.history) + 1)] or len(self.history) > STEPS:
            return "each step is recorded once"
        if any(epoch != newest for epoch, newest in self.written):
            return "nothing is written under a lease that was taken over"
        return ""

    def has_ended_well(self) -> bool:
        idle = all(process.is_idle for process in self.processes.values())
        return idle and len(self.history) == STEPS


def test_a_lease_lets_one_process_write_and_the_work_can_always_be_done() -> None:
    explored = explore(LeasedSteps)
    assert not explored.broken, explored
    assert explored.states > 500


@pytest.mark.parametrize(
    ("bug", "broken", "shortest"),
    [
        ("no-epoch-check", "nothing is written under a lease that was taken over", 7),
        ("zombie-writes", "nothing is written under a lease that was taken over", 8),
        ("lease-released-early", "nothing is written under a lease that was taken over", 9),
        ("unknown-is-done", "a good end can be reached", 6),
    ],
)
def test_a_planted_bug_of_leases_is_found_with_the_shortest_way_to_it(
    bug: str, broken: str, shortest: int
) -> None:
    with planted(bug):
        explored = explore(LeasedSteps)
    assert explored.broken == broken, explored
    assert len(explored.trace) == shortest, explored.trace
