"""A ledger with a fault of the code that some command meets."""

from __future__ import annotations

from typing import Any

from libs.bus.clock_and_ids import SystemClock
from libs.bus.command_dispatcher import Handler
from libs.bus.ports import Bus
from libs.bus.service_host import Service
from libs.eventstore.in_memory_database import InMemoryDatabase
from tests.contract.ledger import (
    Deposit,
)
from tests.contract.wires import Ledger


class Poisoned(Ledger):
    """The ledger as a whole service, with its retries."""

    def __init__(self, handler: Handler, database: InMemoryDatabase | None = None) -> None:
        super().__init__(handler, database)
        self.handler = handler

    async def serve(self, bus: Bus, *, follows_death: bool = False) -> None:
        self.service = Service("ledger", self.repository, bus, SystemClock())
        self.service.follows_death = follows_death
        await self.service.handle({Deposit: self.handler})

    def letters(self) -> list[Any]:
        return self.database.schema("ledger").rows("dead_letters")

    def counted(self) -> list[Any]:
        return self.database.schema("ledger").rows("attempts")
