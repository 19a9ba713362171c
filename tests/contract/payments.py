"""A kind of leased work for the contract suites: accounts that processes pay into, once each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from libs.bus.fair_semaphore import FairSemaphore
from libs.bus.in_memory import InMemoryBus, InMemoryNetwork
from libs.bus.process_ports import ProcessPorts
from libs.contracts.bus_messages import Context
from libs.eventstore.unit_of_work import Repository, UnitOfWork
from libs.work.leased_work import LeasedWork
from libs.work.work_lease import DueWork, WorkLease
from tests.clock_and_ids import CountingIds, ManualClock
from tests.contract.ledger import Account, project
from tests.contract.worlds import World
from tests.waiting import wait_for

ORG, OTHER_ORG = "org-1", "org-2"
WORK = DueWork("account-1", ORG)
IDS = CountingIds()
PLACES, PLACES_OF_ORG_MAX = 3, 2
FAILED = -1  # the deposit of an account whose payment is given up

type Meanwhile = Callable[[WorkLease[DueWork]], Awaitable[object]]


async def nothing(_: WorkLease[DueWork]) -> None:
    """Take no time."""


class Payments(LeasedWork[DueWork]):
    """The accounts that one process pays into, once each; something may happen `meanwhile`."""

    name = "payment"

    def __init__(self, world: World, holder: str, wanted: list[DueWork]) -> None:
        self.world = world
        self.wanted = wanted
        self.store = world.store(holder)
        self.clock = ManualClock()
        self.attempts: list[str] = []
        self.reasons: list[str] = []
        self.gate = asyncio.Event()
        self.meanwhile: Meanwhile = nothing
        self.cancelled: list[str] = []
        self.looks = 0
        self.waits_for_store = False
        self.is_due_for_ever = False
        self.commits = 0
        repository = Repository(self.store, "ledger", project)
        ports = ProcessPorts(
            repository=repository,
            bus=InMemoryBus(InMemoryNetwork()),
            clock=self.clock,
            ids=IDS,
            committed=self.count_commit,
        )
        places = FairSemaphore(
            PLACES, of_organisation_max=PLACES_OF_ORG_MAX, users="payments", thing="place"
        )
        super().__init__(ports, places)

    def count_commit(self) -> None:
        self.commits += 1

    async def due(self) -> Sequence[DueWork]:
        held = {lease.work.id for lease in self.tasks}  # as a statement sees the leases
        paid = {str(row["id"]) for row in await self.world.rows()}
        gone = held if self.is_due_for_ever else paid | held
        return [work for work in self.wanted if work.id not in gone]

    async def attempt(self, lease: WorkLease[DueWork]) -> None:
        self.attempts.append(lease.work.id)
        await self.meanwhile(lease)
        await lease.record(self.payment_into(lease.work), waits_for_store=self.waits_for_store)

    async def give_up(self, unit: UnitOfWork, work: DueWork, reason: str) -> None:
        self.reasons.append(reason)
        account = await unit.load(Account, work.id)
        if not account.exists:
            account.deposit(FAILED)

    def payment_into(self, work: DueWork) -> Callable[[UnitOfWork], Awaitable[None]]:
        async def pay(unit: UnitOfWork) -> None:
            (await unit.load(Account, work.id)).deposit(1)

        return pay

    async def find_cancelled(self, orgs: list[str], ids: list[str]) -> Sequence[str]:
        self.looks += 1
        return [work_id for work_id in self.cancelled if work_id in ids]

    def stand_still(self) -> None:
        """Have attempts wait for the gate."""
        self.meanwhile = lambda _: self.gate.wait()

    async def want(self, work: DueWork) -> int | None:
        """Commit that a work is wanted, and begin it."""
        unit = self.ports.repository.work(Context(IDS.new("want"), org=work.org))
        self.wanted.append(work)
        self.begin_after_commit(work, unit)
        return await unit.commit()

    async def under_way(self, count: int) -> None:
        await wait_for("the attempts", lambda: len(self.attempts) == count)

    async def payments(self, work: DueWork = WORK) -> int:
        return len((await self.store.load(work.id)).events) // 2


class Bank:
    """Processes that have the same to do."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.wanted: list[DueWork] = []
        self.processes: list[Payments] = []

    def process(self) -> Payments:
        holder = f"process-{len(self.processes) + 1}"
        self.processes.append(Payments(self.world, holder, self.wanted))
        return self.processes[-1]
