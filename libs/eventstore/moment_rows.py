"""Row writes as statements about one moment: what `row_write_parts` does to the rows of now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic_core import to_json

from libs.contracts.bus_messages import JsonObject
from libs.eventstore.read_model_rows import RowWrites, Table
from libs.eventstore.row_write_parts import by_columns, patch_assignments

type Statement = tuple[str, dict[str, Any]]


def moment_statements(service: str, as_of: int, rows: RowWrites) -> Iterator[Statement]:
    """The statements of these writes, to be made in this order: deletions come first."""
    for deletion in rows.deletions:
        condition = f"t.{deletion.column} = %(value)s"
        values: dict[str, Any] = {"as_of": as_of, "value": deletion.value}
        if deletion.spared:
            condition += f" and t.{deletion.table.key[0]} <> all(%(spared)s::text[])"
            values["spared"] = deletion.spared
        past = rows_table(service, deletion.table)
        yield f"delete from {past} t where t.as_of = %(as_of)s and {condition}", values
    for table, upserts in rows.upserts.items():
        for columns, batch in by_columns(upserts.values()):
            yield upsert(service, table, columns), {"as_of": as_of, "rows": json_of(batch)}
    for table, keys, fields in rows.patches_alike:
        text = (
            f"update {rows_table(service, table)} t set {patch_assignments(sorted(fields))}"
            f" from json_populate_record(null::{service}.{table.name}, %(row)s::json) x"
            f" where t.as_of = %(as_of)s and t.{table.key[0]} = any(%(keys)s::text[])"
        )
        yield text, {"as_of": as_of, "row": to_json(fields).decode(), "keys": keys}
    for table, patches in rows.patches.items():
        for columns, batch in by_columns(patches.values()):
            if len(columns) > len(table.key):
                yield patch(service, table, columns), {"as_of": as_of, "rows": json_of(batch)}


def rows_table(service: str, table: Table) -> str:
    """The table of a read model's rows of the past."""
    return f"{service}_as_of.{table.name}_rows"


def source(service: str, table: Table) -> str:
    """The rows of a parameter, typed as the columns of the live table."""
    return f"json_populate_recordset(null::{service}.{table.name}, %(rows)s::json) x"


def upsert(service: str, table: Table, columns: tuple[str, ...]) -> str:
    """Insert rows, or replace them."""
    others = [column for column in columns if column not in table.key]
    values = ", ".join(f"{column} = excluded.{column}" for column in others)
    return (
        f"insert into {rows_table(service, table)} (as_of, {', '.join(columns)})"
        f" select %(as_of)s, {', '.join(f'x.{column}' for column in columns)}"
        f" from {source(service, table)} on conflict (as_of, {', '.join(table.key)})"
        f" do {f'update set {values}' if others else 'nothing'}"
    )


def patch(service: str, table: Table, columns: tuple[str, ...]) -> str:
    """Change some columns of rows that are there; `fields` are merged."""
    values = patch_assignments(column for column in columns if column not in table.key)
    same = " and ".join(f"t.{column} = x.{column}" for column in table.key)
    return (
        f"update {rows_table(service, table)} t set {values} from {source(service, table)}"
        f" where t.as_of = %(as_of)s and {same}"
    )


def json_of(rows: list[JsonObject]) -> str:
    """Rows as one JSON array."""
    return to_json(rows).decode()


def only_tables(rows: RowWrites, names: frozenset[str]) -> RowWrites:
    """The same writes without those to other tables."""
    return RowWrites(
        {table: found for table, found in rows.upserts.items() if table.name in names},
        {table: found for table, found in rows.patches.items() if table.name in names},
        [deletion for deletion in rows.deletions if deletion.table.name in names],
        [alike for alike in rows.patches_alike if alike[0].name in names],
    )
