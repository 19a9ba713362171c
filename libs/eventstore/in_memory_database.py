"""Content of the in-memory stores: a schema of each service, shared by all its processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from libs.contracts.bus_messages import JsonObject
from libs.eventstore.ports import Snapshot, StoredEvent
from libs.eventstore.read_model_rows import Rows


@dataclass(slots=True)
class Lease:
    """The holder of a key, the time of its take-over, the end (seconds of the store's clock), and
    whether the attempt under the lease before did not end."""

    holder: str
    epoch: int
    expires_at: float
    taken_over: bool = False


@dataclass(slots=True)
class InMemoryDatabase:
    """The parts that several stores (processes) of several services share."""

    clock: Callable[[], float]
    services: dict[str, InMemorySchema] = field(default_factory=dict)
    commits: int = 0

    def schema(self, service: str) -> InMemorySchema:
        """The schema of a service, made at first sight."""
        return self.services.setdefault(service, InMemorySchema())


@dataclass(slots=True)
class InMemorySchema:
    """The data of one service."""

    streams: dict[str, list[StoredEvent]] = field(default_factory=dict)
    committed: list[StoredEvent] = field(default_factory=list)
    log: list[StoredEvent] = field(default_factory=list)
    inbox: dict[str, str] = field(default_factory=dict)
    handled_at: dict[str, float] = field(default_factory=dict)
    snapshots: dict[tuple[str, str], Snapshot] = field(default_factory=dict)
    leases: dict[str, Lease] = field(default_factory=dict)
    epochs: int = 0
    positions: dict[str, int] = field(default_factory=dict)
    published: int = 0
    tables: Rows = field(default_factory=dict)

    def rows(self, table: str) -> list[JsonObject]:
        """The rows of a read model."""
        return list(self.tables.get(table, {}).values())
