"""Read-model rows, written in the same transaction as the events they are projected from."""

from __future__ import annotations

from dataclasses import dataclass, field

from libs.contracts.bus_messages import Json, JsonObject


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A read-model table of the service's schema, and the columns that name one row of it. There is
    one object of each, which so is a quick key of a dict.

    `aggregate` is the column that names the aggregate whose events a row is projected from: only
    those write it. So a rebuild replays one aggregate after the other. `json_strings` are columns
    of JSON that may be a bare string; a string in any other column is a text.
    """

    name: str
    key: tuple[str, ...] = ("id",)
    aggregate: str = "id"
    json_strings: tuple[str, ...] = ()

    def key_of(self, row: JsonObject) -> tuple[Json, ...]:
        """The values that name a row."""
        if len(self.key) == 1:  # as most have it: a generator takes several times as long
            return (row[self.key[0]],)
        return tuple(row[column] for column in self.key)


# The rows of read models in memory: by table, and by the values of its key.
type Rows = dict[str, dict[tuple[Json, ...], JsonObject]]


@dataclass(slots=True)
class Deletion:
    """Rows of a table that go: those whose `column` equals `value` before the commit, without the
    `spared` ones, which the same commit gave another value first."""

    table: Table
    column: str
    value: Json
    spared: list[Json] = field(default_factory=list)


@dataclass(slots=True)
class RowWrites:
    """The changes of one commit to the read models; the same as if it was done one after the other.

    One statement may touch a row only once, and does its parts in no certain order. So writes to
    the same row are merged here, in the order in which they were asked for. What cannot be known
    here is which stored rows a deletion finds: a statement deletes first, and patches only rows
    that were not deleted.
    """

    upserts: dict[Table, dict[tuple[Json, ...], JsonObject]] = field(default_factory=dict)
    patches: dict[Table, dict[tuple[Json, ...], JsonObject]] = field(default_factory=dict)
    deletions: list[Deletion] = field(default_factory=list)
    patches_alike: list[tuple[Table, list[Json], JsonObject]] = field(default_factory=list)

    def upsert(self, table: Table, row: JsonObject) -> None:
        """Write a whole row, whether it is there or not."""
        key = table.key_of(row)
        self.set_apart(table, {key[0]})
        self.patches.get(table, {}).pop(key, None)
        self.upserts.setdefault(table, {})[key] = dict(row)

    def patch(self, table: Table, fields: JsonObject) -> None:
        """Change the given columns of one row, if it exists; `fields` are merged key by key."""
        key = table.key_of(fields)
        self.set_apart(table, {key[0]})
        fresh = self.upserts.get(table, {}).get(key)
        target = (
            fresh if fresh is not None else self.patches.setdefault(table, {}).setdefault(key, {})
        )
        merge(target, fields)

    def patch_alike(self, table: Table, keys: list[Json], fields: JsonObject) -> None:
        """Change the given columns of many rows to the same values; their key is one column."""
        assert len(table.key) == 1, "the rows are named by one column"
        self.set_apart(table, set(keys))
        written = {*self.upserts.get(table, ()), *self.patches.get(table, ())}
        deleted = any(deletion.table == table for deletion in self.deletions)
        alone = [key for key in keys if deleted or (key,) in written]
        for key in alone:
            self.patch(table, {table.key[0]: key, **fields})
        alike = [key for key in keys if key not in alone] if alone else list(keys)
        if alike:
            self.patches_alike.append((table, alike, fields))

    def set_apart(self, table: Table, keys: set[Json] | None) -> None:
        """Make these rows, or all, that are patched alike so far patched each by itself."""
        for number, (patched, alike, fields) in enumerate(self.patches_alike):
            if patched != table or (keys is not None and keys.isdisjoint(alike)):
                continue
            moved = [key for key in alike if keys is None or key in keys]
            self.patches_alike[number] = (
                table,
                [each_key for each_key in alike if each_key not in moved],
                fields,
            )
            for key in moved:
                named = {table.key[0]: key, **fields}
                self.patches.setdefault(table, {})[(key,)] = named
        self.patches_alike = [patch for patch in self.patches_alike if patch[1]]

    def delete(self, table: Table, column: str, value: Json) -> None:
        """Remove every row whose `column` equals `value`."""
        self.set_apart(table, None)
        deletion = Deletion(table, column, value)
        self.deletions.append(deletion)
        for pending in (self.upserts, self.patches):
            rows = pending.get(table, {})
            for key in [key for key, row in rows.items() if column in row]:
                if rows[key][column] == value:
                    del rows[key]
                    if column not in table.key:
                        # The stored row may have another value: it goes by its key.
                        self.deletions.append(Deletion(table, *named_by(table, key)))
                elif pending is self.patches and column not in table.key:
                    deletion.spared.append(named_by(table, key)[1])

    def add(self, others: RowWrites) -> None:
        """Do as well what was asked for of other rows: none is written here and there."""
        for mine, theirs in ((self.upserts, others.upserts), (self.patches, others.patches)):
            for table, rows in theirs.items():
                mine.setdefault(table, {}).update(rows)
        self.deletions += others.deletions
        self.patches_alike += others.patches_alike

    def apply(self, tables: Rows) -> None:
        """Do it to rows in memory, as the statement of a commit does it to those in Postgres."""
        for deletion in self.deletions:
            stored = tables.setdefault(deletion.table.name, {})
            found = [
                key for key, row in stored.items() if row.get(deletion.column) == deletion.value
            ]
            for key in found:
                if key[0] not in deletion.spared:
                    del stored[key]
        for table, upserts in self.upserts.items():
            stored = tables.setdefault(table.name, {})
            for key, row in upserts.items():
                before = stored.get(key, {})
                if before.get(table.aggregate) == row.get(table.aggregate) or not before:
                    stored[key] = {**before, **row}
        for table, names, fields in self.patches_alike:
            stored = tables.setdefault(table.name, {})
            for name in names:
                if (name,) in stored:
                    merge(stored[(name,)], fields)
        for table, patches in self.patches.items():
            stored = tables.setdefault(table.name, {})
            for key, fields in patches.items():
                if key in stored:
                    merge(stored[key], fields)


def named_by(table: Table, key: tuple[Json, ...]) -> tuple[str, Json]:
    """The one column that names a row, and its value."""
    assert len(table.key) == 1, "a row that is deleted is named by one column"
    return table.key[0], key[0]


def merge(row: JsonObject, fields: JsonObject) -> None:
    """Change a row in place as a patch does: columns are replaced, `fields` are merged."""
    for column, value in fields.items():
        current = row.get(column)
        if column == "fields" and isinstance(current, dict) and isinstance(value, dict):
            row[column] = {**current, **value}
        else:
            row[column] = value
