"""A service that follows the ledger: its relay, its consumer and its projections."""

from __future__ import annotations

from libs.bus.clock_and_ids import SystemClock
from libs.bus.event_consumer import EventConsumer
from libs.contracts.bus_messages import Context, Event
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.ports import Commit
from tests.contract.ledger import MoneyDeposited, deposited
from tests.contract.wires import Ledger


def money(account_id: str, version: int, cents: int) -> Commit:
    payload = f'{{"cents":{cents},"currency":"EUR"}}'
    return Commit([deposited(account_id, version, payload, 3)])


class Follower:
    """A consumer of the ledger's deposits, and what it was told."""

    def __init__(self, database: InMemoryDatabase, wires_bus: object, holder: str = "f") -> None:
        self.told: list[tuple[int, str]] = []
        self.contexts: list[Context] = []
        self.store = InMemoryEventStore(database, "follower", holder)
        reactions = {MoneyDeposited: self.react}
        self.consumer = EventConsumer(
            "follower",
            self.store,
            wires_bus,  # type: ignore[arg-type]
            "ledger",
            reactions,
            SystemClock(),
        )

    async def react(self, event: Event, cause: Context) -> None:
        assert isinstance(event, MoneyDeposited)
        self.told.append((event.cents, event.originator_id))
        self.contexts.append(cause)


def positions(ledger: Ledger) -> dict[str, int]:
    return ledger.database.schema("follower").positions
