"""Planted bugs of the engine for leased work, which calls of tools and files show."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from libs.bus.process_ports import ProcessPorts
from libs.eventstore.ports import StoreUnavailable
from libs.work.leased_work import LeasedWork
from libs.work.work_lease import WorkLease
from tests.sim.mutants import Patch, mutant


@mutant("An attempt that records nothing keeps its lease, which is renewed for ever.")
def work_keeps_lease() -> list[Patch]:
    async def give_back(lease: WorkLease[Any]) -> None:
        lease.is_released = True

    return [(WorkLease, "give_back", give_back)]


@mutant("An attempt decides beside the commands about its aggregate.")
def attempt_races_commands() -> list[Patch]:
    real = WorkLease.record

    async def record(lease: WorkLease[Any], decide: Any, *, about: str = "", **how: Any) -> Any:
        return await real(lease, decide, about=f"not {about or lease.work.id}", **how)

    return [(WorkLease, "record", record)]


@mutant("Work begins before the commit that wants it is durable.")
def work_begins_before_commit() -> list[Patch]:
    def begin_after_commit(
        work: LeasedWork[Any], wanted: Any, unit: Any, attempt: Any = None
    ) -> None:
        async def begin() -> None:
            with contextlib.suppress(StoreUnavailable):
                epoch = await work.ports.repository.store.take_lease(wanted.id)
                work.begin(wanted, epoch, attempt, context=unit.context)

        work.aside(begin())

    return [(LeasedWork, "begin_after_commit", begin_after_commit)]


@mutant("The place of an attempt that has ended is never free again.")
def places_are_not_left() -> list[Patch]:
    @contextlib.asynccontextmanager
    async def place(work: LeasedWork[Any], org: str) -> Any:
        if work.places:
            await work.places.take(org, "")
        yield

    return [(LeasedWork, "place", place)]


@mutant("No sweep begins what no process does.")
def nothing_is_swept() -> list[Patch]:
    async def begin_due(_: LeasedWork[Any]) -> None:
        """Look for nothing."""

    return [(LeasedWork, "begin_due", begin_due)]


@mutant("A sweep begins work whose lease somebody holds.")
def sweep_ignores_leases() -> list[Patch]:
    async def begin_due(work: LeasedWork[Any]) -> None:
        take_lease = work.ports.repository.store.take_lease
        for due in await work.due():
            if work.may_begin(due):
                lease = leases(work.ports).get(due.id)
                if lease is not None:
                    lease.expires_at = float("-inf")
                work.begin(due, await take_lease(due.id))
                await asyncio.sleep(0)

    return [(LeasedWork, "begin_due", begin_due)]


def leases(ports: ProcessPorts) -> dict[str, Any]:
    """The leases as the store of the simulated world has them."""
    store: Any = ports.repository.store
    return store.server.database.schema(store.service).leases  # type: ignore[no-any-return]
