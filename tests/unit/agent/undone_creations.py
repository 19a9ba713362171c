"""Creations of agents that do not end, and who undoes them."""

from __future__ import annotations

from typing import Any

from libs.bus.aggregate_locks import AggregateLocks
from libs.bus.ports import BusUnavailable
from libs.contracts.bus_messages import Accepted, Command, Context, Rejected
from libs.eventstore.in_memory import InMemoryEventStore
from services.agent.policies.undo_unfinished_creations import (
    UNFINISHED_SECONDS,
    UndoUnfinishedCreations,
)
from tests.unit.agent.world import Process, World


class CrashingBus:
    """A bus at which the process dies: before the command is sent, or after it took effect."""

    def __init__(self, process: Process, *, sent: bool) -> None:
        self.bus = process.bus
        self.sent = sent

    async def request(self, command: Command, context: Context, **_: Any) -> Accepted | Rejected:
        if self.sent:
            await self.bus.request(command, context)
        raise BusUnavailable("the process is gone")


async def undoing(world: World, process: Process) -> UndoUnfinishedCreations:
    """What undoes creations in a process, when the log of the memory service is numbered."""
    await InMemoryEventStore(world.database, "memory", "relay").number_log()
    locks = AggregateLocks()
    return UndoUnfinishedCreations(
        process.repository, world.queries, process.bus, world.clock, world.ids, locks
    )


async def undo_after_a_minute(world: World, process: Process) -> None:
    """Undo what is unfinished now, and still is in a minute."""
    undo = await undoing(world, process)
    await undo.sweep()
    world.clock.seconds += UNFINISHED_SECONDS
    await undo.sweep()
