"""The lease of one piece of work, and the one policy by which its decisions become durable."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from libs.bus.process_ports import ProcessPorts
from libs.contracts.bus_messages import Context, NewerVersion
from libs.eventstore.ports import Fence, StaleLease, StoreUnavailable, VersionConflict
from libs.eventstore.unit_of_work import UnitOfWork
from libs.work.attempt_counts import RETRY_DELAY_SECONDS, AttemptCount

log = logging.getLogger(__name__)

CONFLICT_RETRIES_MAX = 20
STORE_RETRY_SECONDS = 1.0
GIVE_BACK_TRIES_MAX = 600  # of a lease while the store is away; they take ten minutes and more
# The engine knows what these mean for a piece of work; an attempt lets them pass.
HANDLED_BY_ENGINE = (NewerVersion, StaleLease, VersionConflict, StoreUnavailable)


class Work(Protocol):
    """A piece of work."""

    @property
    def id(self) -> str:
        """The key of its lease: the id of its aggregate, unless several works are about one."""

    @property
    def org(self) -> str:
        """The organisation that it is done for."""


@dataclass(frozen=True, slots=True)
class DueWork:
    """A piece of work of which the engine needs to know no more than its id."""

    id: str
    org: str


class WorkLease[W: Work]:
    """A piece of work that this process may do while its lease is the newest.

    `has_recorded` tells whether an event was committed under it, `is_released` whether it was given
    back. `count` knows what became of the attempts before.
    """

    def __init__(
        self,
        work: W,
        fence: Fence,
        ports: ProcessPorts,
        context: Context,
        *,
        taken_over: bool = False,
    ) -> None:
        self.work = work
        self.fence = fence
        self.ports = ports
        self.context = context
        self.count = AttemptCount(
            ports, has_failed=taken_over, retry_delay_seconds=RETRY_DELAY_SECONDS
        )
        self.has_recorded = False
        self.is_released = False

    def unit(self) -> UnitOfWork:
        """A new decision in the name of this work; it may also serve to read aggregates."""
        return self.ports.repository.work(self.context.follow_up(self.ports.ids.new("work")))

    async def record[T](
        self,
        decide: Callable[[UnitOfWork], Awaitable[T]],
        *,
        release: Callable[[T], bool] | bool = True,
        about: str = "",
        advances: bool = False,
        waits_for_store: bool = False,
    ) -> T:
        """Commit a decision under the lease, and return what `decide` returned.

        `decide` loads, decides and writes nothing; it is called again after a version conflict, at
        most CONFLICT_RETRIES_MAX times. It runs under the lock of the aggregate that the work is
        `about`, which is the work's id by default. `release` says whether the commit also gives
        the lease back. One that `advances` takes the work further for good, so that no attempt
        does the same again: attempts that fail are counted anew behind it.

        An outage of the store raises StoreUnavailable, and a later sweep repeats the attempt. Where
        that must not be repeated, `waits_for_store` has the decision made again, however long the
        outage. Raises StaleLease, NewerVersion, and VersionConflict after the last retry.
        """
        conflicts = 0
        while True:
            unit = self.unit()
            try:
                async with self.ports.locks.hold(about or self.work.id):
                    value = await decide(unit)
                    releases = release(value) if callable(release) else release
                    await unit.commit(fence=self.fence, release_lease=releases)
            except VersionConflict:
                conflicts += 1
                if conflicts > CONFLICT_RETRIES_MAX:
                    raise
            except StoreUnavailable as outage:
                if not waits_for_store:
                    raise
                log.warning("%s waits for the store: %s", self.work.id, outage)
                await self.ports.clock.sleep(STORE_RETRY_SECONDS)
            else:
                self.has_recorded |= bool(unit.events)
                self.is_released |= releases
                if advances and unit.events:
                    await self.count.forget()
                self.ports.committed()
                return value

    async def give_back(self) -> None:
        """Let any process take the lease at once, and have no attempt counted that was ended from
        outside. While the store is away this is tried again: a lease that is left to run out says
        that its process has died. Safe to repeat."""
        self.count.leave_quarantine()
        for _ in range(GIVE_BACK_TRIES_MAX):
            try:
                await self.give_back_once()
            except StoreUnavailable:
                await self.ports.clock.sleep(STORE_RETRY_SECONDS)
            else:
                break
        self.is_released = True  # or it runs out

    async def give_back_once(self) -> None:
        """Give the lease back, and what was counted. Raises StoreUnavailable."""
        await self.count.uncount()
        if not self.is_released:
            store = self.ports.repository.store
            await store.release_lease(self.fence, failed=self.count.has_failed)
