"""Which rows of read models the events of an aggregate write: histories from outside may name the
ids of anything, and a row is written by the events of one aggregate alone."""

from __future__ import annotations

from dataclasses import dataclass, field

from libs.contracts.bus_messages import Json, JsonObject
from libs.eventstore.ports import EventStore
from libs.eventstore.read_model_rows import RowWrites, Table


@dataclass(slots=True)
class RowClaims:
    """The rows that events of one aggregate write, by table, column and value. `wrong` are names of
    rows that cannot be of this aggregate, whether they are there or not."""

    aggregate_id: str
    values: dict[tuple[Table, str], set[str]] = field(default_factory=dict)
    wrong: set[str] = field(default_factory=set)

    def add(self, table: Table, column: str, value: Json) -> None:
        """One more row, or all that have a value in a column."""
        if column != table.aggregate:
            self.values.setdefault((table, column), set()).add(str(value))
        elif value != self.aggregate_id:
            self.wrong.add(str(value))

    def add_row(self, table: Table, row: JsonObject) -> None:
        """One more row, by its key and by the aggregate that it says it is of."""
        if table.aggregate in row:
            self.add(table, table.aggregate, row[table.aggregate])
        if table.aggregate not in table.key:
            self.add(table, table.key[0], row[table.key[0]])

    def add_all(self, rows: RowWrites) -> None:
        """All rows that are written or deleted."""
        for written in (rows.upserts, rows.patches):
            for table, found in written.items():
                for key, row in found.items():
                    self.add_row(table, {**dict(zip(table.key, key, strict=True)), **row})
        for table, keys, _ in rows.patches_alike:
            for alike in keys:
                self.add(table, table.key[0], alike)
        for deletion in rows.deletions:
            self.add(deletion.table, deletion.column, deletion.value)

    async def of_others(self, store: EventStore) -> list[str]:
        """The names of rows that are not this aggregate's."""
        if self.wrong:
            return sorted(self.wrong)
        for (table, column), values in self.values.items():
            if found := await store.rows_of_others(
                table, column, sorted(values), self.aggregate_id
            ):
                return found
        return []


def claims_of(aggregate_id: str, rows: RowWrites) -> RowClaims:
    """The rows that were projected from the events of an aggregate."""
    claims = RowClaims(aggregate_id)
    claims.add_all(rows)
    return claims
