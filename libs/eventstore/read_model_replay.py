"""The rows of read models as the events of some aggregates make them, replayed in memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from libs.eventstore.event_decoding import event_of
from libs.eventstore.ports import ERASED, StoredEvent
from libs.eventstore.read_model_rows import Rows, RowWrites, Table
from libs.eventstore.unit_of_work import Projection


@dataclass(frozen=True, slots=True)
class ReadModels:
    """The read models of a service that are projected from its events, and how."""

    service: str
    project: Projection
    tables: tuple[Table, ...]


class Replay:
    """Rows by table and key, and the version up to which each aggregate was replayed."""

    def __init__(self, models: ReadModels) -> None:
        self.models = models
        self.rows: Rows = {}
        self.versions: dict[str, int] = {}

    def add(self, events: Iterable[StoredEvent]) -> int:
        """Replay further events, those of one aggregate in order; returns how many there were.
        Raises UnknownEvent for one that only a newer version can read."""
        count = 0
        for stored in events:
            count += 1
            self.versions[stored.aggregate_id] = stored.version
            if ERASED in stored.metadata:  # its rows went when its aggregate was deleted
                continue
            writes = RowWrites()
            event = event_of(self.models.service, stored)
            self.models.project(event, stored.org, writes)
            for table, rows in writes.upserts.items():
                owned = all(row[table.aggregate] == stored.aggregate_id for row in rows.values())
                assert owned, f"{stored.topic} writes a row of another aggregate to {table.name}"
            writes.apply(self.rows)
        return count
