"""The wiring of the counter service."""

from __future__ import annotations

from collections.abc import Mapping

from libs.bus.service_runner import Runtime, Wire
from libs.contracts.bus_messages import Accepted, Rejected
from libs.contracts.counter.messages import Count
from libs.eventstore.unit_of_work import UnitOfWork
from services.counter.domain import Counter


def wiring(environment: Mapping[str, str]) -> Wire:
    """It reads no variables of its own."""
    return wire


async def wire(runtime: Runtime) -> None:
    """Register what answers each command."""

    async def count(command: Count, work: UnitOfWork) -> Accepted | Rejected:
        counter = await work.load(Counter, command.counter_id)
        counter.count(at=runtime.clock.now())
        return Accepted(result={"total": counter.state.total})

    await runtime.service.handle({Count: count})
