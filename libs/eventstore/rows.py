"""Read-model rows, written in the same transaction as the events they are projected from."""

from __future__ import annotations

from dataclasses import dataclass, field

from libs.contracts.message import Json, JsonObject


@dataclass(frozen=True, slots=True)
class Table:
    """A read-model table of the service's schema, and the columns that name one row of it."""

    name: str
    key: tuple[str, ...] = ("id",)

    def key_of(self, row: JsonObject) -> tuple[Json, ...]:
        """The values that name a row."""
        return tuple(row[column] for column in self.key)


@dataclass(slots=True)
class RowWrites:
    """What one commit does to the read models.

    Writes to the same row are folded into one, in the order they were asked for, because one
    statement may touch a row only once. Deletions happen first, to rows that other commits wrote.
    """

    upserts: dict[Table, dict[tuple[Json, ...], JsonObject]] = field(default_factory=dict)
    patches: dict[Table, dict[tuple[Json, ...], JsonObject]] = field(default_factory=dict)
    deletions: list[tuple[Table, str, Json]] = field(default_factory=list)
    patches_alike: list[tuple[Table, list[Json], JsonObject]] = field(default_factory=list)

    def upsert(self, table: Table, row: JsonObject) -> None:
        """Write a whole row."""
        key = table.key_of(row)
        self.patches.get(table, {}).pop(key, None)
        self.upserts.setdefault(table, {})[key] = dict(row)

    def patch(self, table: Table, fields: JsonObject) -> None:
        """Change the given columns of one row, if it exists; a `doc` is merged key by key."""
        key = table.key_of(fields)
        fresh = self.upserts.get(table, {}).get(key)
        target = (
            fresh if fresh is not None else self.patches.setdefault(table, {}).setdefault(key, {})
        )
        merge(target, fields)

    def patch_alike(self, table: Table, keys: list[Json], fields: JsonObject) -> None:
        """Change the given columns of many rows to the same values; of rows that the commit does
        not touch otherwise, and whose key is one column."""
        assert len(table.key) == 1, "the rows are named by one column"
        self.patches_alike.append((table, keys, fields))

    def delete(self, table: Table, column: str, value: Json) -> None:
        """Remove every row whose `column` equals `value`."""
        for pending in (self.upserts, self.patches):
            rows = pending.get(table, {})
            for key in [key for key, row in rows.items() if row.get(column) == value]:
                del rows[key]
        self.deletions.append((table, column, value))


def merge(row: JsonObject, fields: JsonObject) -> None:
    """Change a row in place as a patch does: columns are replaced, a `doc` is merged."""
    for column, value in fields.items():
        current = row.get(column)
        if column == "doc" and isinstance(current, dict) and isinstance(value, dict):
            row[column] = {**current, **value}
        else:
            row[column] = value
