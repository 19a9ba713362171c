"""Do long work under leases: each piece by one process at a time, and none is forgotten.

That a piece of work is wanted is an event before anybody begins it. The process that commits the
event takes the lease in the same commit and begins at once; if it dies, is too busy or is being
stopped, the sweeper of some process finds the work in a read model and begins it. What an attempt
decides is committed under its lease, so an attempt that has lost it changes nothing.

A new kind of work says what is due, and what one attempt does:

    class Exports(LeasedWork[DueWork]):
        '''The exports that this process makes.'''

        name = "export"
        ports: ExportPorts  # with the fields of ProcessPorts

        def __init__(self, ports: ExportPorts) -> None:
            super().__init__(ports, FairSemaphore(4, of_organisation_max=2))

        async def due(self) -> Sequence[DueWork]:
            return await self.ports.queries.due_exports()

        async def attempt(self, lease: WorkLease[DueWork]) -> None:
            archive = await self.ports.archives.made(lease.work.org, lease.work.id)

            async def complete(unit: UnitOfWork) -> None:
                export = await unit.load(Export, lease.work.id)
                export.complete(archive, at=self.ports.clock.now())

            await lease.record(complete)

        async def give_up(self, unit: UnitOfWork, work: DueWork, reason: str) -> None:
            export = await unit.load(Export, work.id)
            export.fail(reason, at=self.ports.clock.now())

The handler of the command calls `exports.begin_after_commit(DueWork(export.id, org), work)`, the
wiring calls `exports.join(service)`, and `exports.drain()` when the process ends. How often an
attempt may fail, and when the next is due, belongs to the aggregate: record that too. Attempts are
made at least once: one that records nothing is repeated by a later sweep, and one that ends just
when a sweep has found its work may be repeated, too.

Attempts that end with their process, or by an exception that nobody expected, are counted in
Postgres before the next one begins (`attempt_counts`). After `ATTEMPTS_MAX` of them the work is
given up: it ends as failed, with a dead letter. A commit that takes it further for good
(`record(..., advances=True)`) has them counted anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from libs.bus.dead_letter_records import (
    DIED,
    FailedMessage,
    Problem,
    attempts_of_work,
    letter_of_work,
    problem_of,
)
from libs.bus.fair_semaphore import FairSemaphore, NoPlace
from libs.bus.process_ports import ProcessPorts
from libs.bus.unknown_version_delays import log_once
from libs.contracts.bus_messages import Context, NewerVersion
from libs.eventstore import failpoints
from libs.eventstore.failed_messages.ports import Attempt as CountedAttempt
from libs.eventstore.failed_messages.ports import park
from libs.eventstore.ports import Fence, StaleLease, StoreUnavailable, VersionConflict
from libs.eventstore.unit_of_work import UnitOfWork
from libs.work.attempt_counts import ATTEMPTS_MAX
from libs.work.leased_tasks import LeasedTasks
from libs.work.work_lease import Work, WorkLease

log = logging.getLogger(__name__)

# More works that may end the process do not wait for quarantine here, but for a later sweep.
SUSPECTS_WAITING_MAX = 64
GAVE_UP = (
    "It was attempted {attempts} times, and each time the server failed for a reason that it did"
    " not expect. Dead letter {letter} says more."
)

type Attempt[W: Work] = Callable[[WorkLease[W]], Awaitable[None]]


class LeasedWork[W: Work](LeasedTasks[WorkLease[W]]):
    """The works of one kind that this process does.

    `places` bounds how many it does at once, for each organisation and altogether; without it there
    is no bound.
    """

    name = "work"

    def __init__(self, ports: ProcessPorts, places: FairSemaphore | None = None) -> None:
        super().__init__(ports.clock)
        self.ports = ports
        self.places = places
        self.beginning = asyncio.Lock()
        self.following = False

    # What is special about a kind of work

    @abstractmethod
    async def due(self) -> Sequence[W]:
        """The works that are to be done now and that nobody holds a lease for, as many as there
        may be places for, those of each organisation by turns."""

    @abstractmethod
    async def attempt(self, lease: WorkLease[W]) -> None:
        """Do a work that a sweep has found, and record what came of it. May be cancelled at any
        time."""

    @abstractmethod
    async def give_up(self, unit: UnitOfWork, work: W, reason: str) -> None:
        """Decide that a work ends as failed, for a reason that its client reads; nothing if it has
        ended. Its attempts have ended the process: load its aggregate, and do nothing else."""

    def aggregate_id(self, work: W) -> str:
        """The aggregate that decides how a work ends."""
        return work.id

    async def find_cancelled(self, orgs: list[str], ids: list[str]) -> Sequence[str]:
        """Return which of these works of these organisations are recorded as cancelled."""
        return ()

    # What is the same for all

    def has_room(self, org: str) -> bool:
        """Whether one more work of an organisation can be begun now."""
        return not self.stopping and (not self.places or self.places.has_place(org))

    def is_under_way(self, work_id: str) -> bool:
        """Whether an attempt at a work is being made in this process."""
        return any(
            lease.work.id == work_id and not task.done() for lease, task in self.tasks.items()
        )

    def begin_after_commit(
        self, work: W, unit: UnitOfWork, attempt: Attempt[W] | None = None
    ) -> None:
        """Have a commit take the lease of a work, and begin it then, if there is room for it now; a
        sweeper begins it otherwise, and what else the same commit wants: it takes one lease."""
        if unit.take_lease is None and self.has_room(work.org):
            unit.take_lease = work.id
            unit.after_commit.append(
                lambda epoch: self.begin(work, epoch, attempt, context=unit.context)
            )

    def begin(
        self,
        work: W,
        epoch: int | None,
        attempt: Attempt[W] | None = None,
        *,
        context: Context | None = None,
        taken_over: bool = False,
    ) -> None:
        """Begin an attempt at a work whose lease was just taken: `attempt`, or that of a sweep.
        Without an epoch the lease was not free, and its holder sees to the work. One that is
        `taken_over` was attempted before."""
        if epoch is None:
            return
        cause = context or Context(self.ports.ids.new("sweep"), org=work.org)
        fence = Fence(work.id, epoch)
        lease = WorkLease(work, fence, self.ports, cause, taken_over=taken_over)
        if self.stopping:  # the commit took longer than the drain
            self.aside(lease.give_back())
            return
        self.begin_task(lease, self.run(lease, attempt or self.attempt))

    def forget(self, lease: WorkLease[W], ended: asyncio.Task[bool]) -> None:
        """An attempt is over. If it took its work further, begin at once what waits for its
        place."""
        del self.tasks[lease]
        if not lease.is_released:  # it was cancelled before it began, or as it gave it back
            self.aside(lease.give_back())
        took_further = not ended.cancelled() and ended.result()
        if took_further and self.places and not self.following and not self.stopping:
            self.following = True
            self.aside(self.begin_next())

    async def run(self, lease: WorkLease[W], attempt: Attempt[W]) -> bool:
        """Make one attempt, as soon as there is a place for it, and give its lease back; returns
        whether the attempt ended well and recorded something. A process edge: a bug is logged here,
        once, and the work is left to a later sweep."""
        try:
            if await self.has_attempts_left(lease):
                async with self.place(lease.work.org):
                    failpoints.reach_with(f"work.{self.name}", lambda: lease.work.id)
                    await attempt(lease)
            await lease.count.forget()
            return lease.has_recorded
        except NoPlace as full:
            log.info("the %s %s begins later: %s", self.name, lease.work.id, full)
        except NewerVersion as unknown:
            log_once(unknown)
            self.leave(lease.work.id)
        except (StaleLease, VersionConflict):
            log.info("the %s %s goes on elsewhere", self.name, lease.work.id)
        except StoreUnavailable as outage:
            log.warning("the %s %s is not recorded: %s", self.name, lease.work.id, outage)
        except Exception as bug:
            log.exception("the %s %s is not recorded", self.name, lease.work.id)
            await self.count_failure(lease, bug)
        finally:
            await lease.give_back()
        return False

    async def has_attempts_left(self, lease: WorkLease[W]) -> bool:
        """Count an attempt at a work whose last one did not end; a suspect waits for quarantine.
        One that was attempted too often is given up. Raises NoPlace if too many suspects wait."""
        if not lease.count.has_failed:
            return True
        if self.ports.quarantine.waiting >= SUSPECTS_WAITING_MAX:
            raise NoPlace(f"{SUSPECTS_WAITING_MAX} others wait that may have ended the process")
        point = attempts_of_work(lease.work.id)
        while not (begun := await lease.count.begin(point)).number:
            await lease.count.wait_before_retry(begun)
        if begun.number <= ATTEMPTS_MAX:
            return True
        await self.end_as_failed(lease, DIED, replace(begun, number=ATTEMPTS_MAX))
        return False

    async def count_failure(self, lease: WorkLease[W], bug: Exception) -> None:
        """Record that an attempt has failed, and give its work up if that was the last one. What
        cannot be recorded is attempted again."""
        try:
            if lease.is_released:  # by the commit that has taken the work as far as it goes
                return await lease.count.forget()
            failure = await lease.count.record_failure(attempts_of_work(lease.work.id))
            if failure.number >= ATTEMPTS_MAX:
                await self.end_as_failed(lease, problem_of(bug), failure)
        except Exception:
            log.exception("the %s %s is not given up", self.name, lease.work.id)
        return None

    async def end_as_failed(
        self, lease: WorkLease[W], problem: Problem, attempt: CountedAttempt
    ) -> None:
        """End a work for good, and keep what is known of it as a dead letter, in one commit. No
        letter is kept of one that has ended otherwise."""
        work, ports = lease.work, self.ports
        service, now = ports.repository.service, ports.clock.now()
        failed = FailedMessage(service, problem, attempt.number, attempt.first_at, now)
        letter = letter_of_work(self.name, work.id, lease.context, failed)

        async def decide(unit: UnitOfWork) -> None:
            reason = GAVE_UP.format(attempts=attempt.number, letter=letter.id)
            await self.give_up(unit, work, reason)
            if unit.has_decided:
                park(letter, unit.rows)

        log.error("the %s %s is given up as %s", self.name, work.id, letter.id)
        await lease.record(decide, about=self.aggregate_id(work))

    def place(self, org: str) -> AbstractAsyncContextManager[None]:
        """Wait for a place of an organisation, and hold it. Raises NoPlace."""
        return self.places.hold(org) if self.places else contextlib.nullcontext()

    async def sweep(self) -> None:
        """Begin the works that are due and that nobody does, as far as there is room."""
        async with self.beginning:
            await self.begin_due()

    async def begin_due(self) -> None:
        """Begin what is due, alone: two that look at the same time would find the same."""
        if self.stopping or (self.places and not self.places.free):
            return
        for work in await self.due():
            if not self.may_begin(work):
                continue
            if taken := await self.ports.repository.store.take_over(work.id):
                self.begin(work, taken.epoch, taken_over=taken.taken_over)
                await asyncio.sleep(0)  # it takes its place before the next is looked at

    def may_begin(self, work: W) -> bool:
        """Whether a work that is due can be begun here now."""
        is_left = self.left_until.get(work.id, 0.0) > self.clock.monotonic()
        return not is_left and self.has_room(work.org) and not self.is_under_way(work.id)

    async def begin_next(self) -> None:
        """Begin what is due; what cannot be begun now, the next sweep begins."""
        with contextlib.suppress(StoreUnavailable):
            async with self.beginning:
                self.following = False
                await self.begin_due()

    def cancel(self, work_id: str) -> None:
        """Cancel the attempt at a work, if it is made here: it is recorded that nobody wants it."""
        for lease, task in self.tasks.items():
            if lease.work.id == work_id:
                task.cancel()

    async def end_cancelled(self) -> None:
        """Cancel the attempts at works that were cancelled in another process."""
        works = [lease.work for lease in self.tasks]
        orgs, ids = sorted({work.org for work in works}), [work.id for work in works]
        for work_id in await self.find_cancelled(orgs, ids):
            self.cancel(work_id)
