"""The parts of a commit's statement that write to read models: one for every table, kind of write
and set of columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from pydantic_core import to_json

from libs.contracts.bus_messages import Json, JsonObject
from libs.eventstore.read_model_rows import RowWrites, Table

# Texts that are kept: they are long, and the same few each time.
TEXTS_MAX = 1_024


def row_parts(
    schema: str, rows: RowWrites, parameters: dict[str, Any], *, alone: bool = False
) -> list[str]:
    """One CTE for every table, kind of write and set of columns; the values of a row that has one
    to itself are parameters if the commit is made `alone`."""
    parts = deletion_parts(schema, rows, parameters)
    deleted_from = {deletion.table for deletion in rows.deletions}

    def one_row(
        table: Table, row: JsonObject, text: Callable[..., str], *, deleted_from: bool
    ) -> None:
        name = f"rows_{len(parts)}"
        texts, listed = texts_of(table, row)
        columns = tuple(texts)
        parameters.update(zip(parameter_names(name, columns), texts.values(), strict=True))
        if listed:
            parameters[name] = to_json(listed).decode()
        written = text(table, columns, tuple(listed), deleted_from=deleted_from)
        parts.append(fill_part(written, schema, name))

    def part(text: str, value: Any, keys: list[Json] | None = None) -> None:
        name = f"rows_{len(parts)}"
        parameters[name] = value
        if keys is not None:
            parameters[f"{name}_keys"] = keys[0] if len(keys) == 1 else keys
        parts.append(fill_part(text, schema, name))

    for table, upserts in rows.upserts.items():
        for columns, batch in by_columns(upserts.values()):
            if alone and len(batch) == 1:
                one_row(table, batch[0], upsert_one_text, deleted_from=table in deleted_from)
                continue
            text = upsert_text(table, columns, deleted_from=table in deleted_from)
            part(text, to_json(batch).decode())
    for table, patches in rows.patches.items():
        for columns, batch in by_columns(patches.values()):
            if len(columns) > len(table.key):
                if alone and len(batch) == 1:
                    one_row(table, batch[0], patch_one_text, deleted_from=table in deleted_from)
                    continue
                keys = [row[table.key[0]] for row in batch]
                deleted = table in deleted_from
                text = patch_text(table, columns, only_one=len(keys) == 1, deleted_from=deleted)
                part(text, to_json(batch).decode(), keys)
    for table, alike, fields in rows.patches_alike:
        part(patch_alike_text(table, tuple(sorted(fields))), to_json(fields).decode(), [alike])
    return parts


def deletion_parts(schema: str, rows: RowWrites, parameters: dict[str, Any]) -> list[str]:
    """One CTE for every table that rows are deleted from; it returns their keys to those that
    write to the same table."""
    conditions: dict[Table, list[str]] = {}
    for number, deletion in enumerate(rows.deletions):
        name = f"deleted_{number}"
        parameters[name] = deletion.value
        condition = f"t.{deletion.column} = %({name})s"
        if deletion.spared:
            parameters[f"{name}_spared"] = deletion.spared
            condition += f" and t.{deletion.table.key[0]} <> all(%({name}_spared)s::text[])"
        conditions.setdefault(deletion.table, []).append(condition)
    parts = []
    for table, any_of in conditions.items():
        text = f"delete from {schema}.{table.name} t using gate where {' or '.join(any_of)}"
        if rows.upserts.get(table) or rows.patches.get(table):
            text += f" returning {', '.join(f't.{column}' for column in table.key)}"
        parts.append(f"deleted_from_{table.name} as ({text})")
    return parts


@lru_cache(TEXTS_MAX)
def fill_part(text: str, schema: str, name: str) -> str:
    """The CTE of a part, which has its parameters by its own name."""
    part = text.format(schema=schema, parameter=f"%({name})s", keys=f"%({name}_keys)s", name=name)
    return f"{name} as ({part})"


def by_columns(rows: Iterable[JsonObject]) -> list[tuple[tuple[str, ...], list[JsonObject]]]:
    """Rows grouped by the columns that they set."""
    groups: dict[tuple[str, ...], list[JsonObject]] = {}
    for row in rows:
        groups.setdefault(tuple(sorted(row)), []).append(row)
    return sorted(groups.items())


def texts_of(table: Table, row: JsonObject) -> tuple[dict[str, str | None], JsonObject]:
    """The values of a row, by columns in order, as the texts that Postgres reads them from; and the
    lists, of which only a column says whether they are arrays of Postgres or JSON."""
    texts: dict[str, str | None] = {}
    listed: JsonObject = {}
    for column in sorted(row):
        value = row[column]
        if value is None or (isinstance(value, str) and column not in table.json_strings):
            texts[column] = value
        elif isinstance(value, bool):
            texts[column] = "true" if value else "false"
        elif isinstance(value, int):
            texts[column] = str(value)
        elif isinstance(value, list) and not (value and isinstance(value[0], dict)):
            listed[column] = value
        else:
            texts[column] = to_json(value).decode()
    return texts, listed


def source(table: Table) -> str:
    """The rows of a parameter, typed as the table's own columns."""
    return f"gate, json_populate_recordset(null::{{schema}}.{table.name}, {{parameter}}::json) x"


@lru_cache(TEXTS_MAX)
def upsert_text(table: Table, columns: tuple[str, ...], *, deleted_from: bool) -> str:
    """Insert the rows, or replace them; after the commit's own deletions."""
    return (
        f"insert into {{schema}}.{table.name} ({', '.join(columns)})"
        f" select {', '.join(f'x.{column}' for column in columns)} from {source(table)}"
        f"{after_deletions(table, deleted_from)}{or_replaced(table, columns)}"
    )


@lru_cache(TEXTS_MAX)
def upsert_one_text(
    table: Table, texts: tuple[str, ...], listed: tuple[str, ...], *, deleted_from: bool
) -> str:
    """Insert a row, or replace it; after the commit's own deletions."""
    names = [*texts, *listed]
    values = ", ".join([*map(parameter, texts), *(f"x.{column}" for column in listed)])
    return (
        f"insert into {{schema}}.{table.name} ({', '.join(names)}) select {values}"
        f" from {source_of_one(table, listed)}{after_deletions(table, deleted_from)}"
        f"{or_replaced(table, names)}"
    )


@lru_cache(TEXTS_MAX)
def patch_one_text(
    table: Table, texts: tuple[str, ...], listed: tuple[str, ...], *, deleted_from: bool
) -> str:
    """Change some columns of a row that exists and that the commit does not delete; `fields` are
    merged."""
    values = [assignment(column, parameter(column)) for column in texts if column not in table.key]
    values += [assignment(column, f"x.{column}") for column in listed]
    same = " and ".join(f"t.{column} = {parameter(column)}" for column in table.key)
    return (
        f"update {{schema}}.{table.name} t set {', '.join(values)}"
        f" from {source_of_one(table, listed)} where {same}"
        f"{not_deleted(table, deleted_from)}"
    )


@lru_cache(TEXTS_MAX)
def parameter_names(name: str, columns: tuple[str, ...]) -> list[str]:
    """The parameters with the texts of columns, for the part of this name."""
    return [f"{name}_{column}" for column in columns]


def parameter(column: str) -> str:
    """The parameter with the text of a column."""
    return f"%({{name}}_{column})s"


def source_of_one(table: Table, listed: tuple[str, ...]) -> str:
    """The source of a single row: its lists, if it has any, typed as the columns are."""
    if not listed:
        return "gate"
    return f"gate, json_populate_record(null::{{schema}}.{table.name}, {{parameter}}::json) x"


def after_deletions(table: Table, deleted_from: bool) -> str:
    """The condition that makes an insertion wait for the commit's own deletions."""
    return f" where (select count(*) from deleted_from_{table.name}) >= 0" if deleted_from else ""


def not_deleted(table: Table, deleted_from: bool) -> str:
    """The condition that the commit does not delete a row."""
    if not deleted_from:
        return ""
    gone = " and ".join(f"d.{column} = t.{column}" for column in table.key)
    return f" and not exists (select from deleted_from_{table.name} d where {gone})"


def or_replaced(table: Table, names: Iterable[str]) -> str:
    """The clause for an insertion on a row that is there: a row of another aggregate stays."""
    others = [column for column in names if column not in table.key]
    values = ", ".join(f"{column} = excluded.{column}" for column in others)
    action = f"update set {values}" if others else "nothing"
    if table.aggregate in others:
        action += f" where {table.name}.{table.aggregate} = excluded.{table.aggregate}"
    return f" on conflict ({', '.join(table.key)}) do {action}"


@lru_cache(TEXTS_MAX)
def patch_text(
    table: Table, columns: tuple[str, ...], *, only_one: bool, deleted_from: bool
) -> str:
    """Change some columns of rows that exist and that the commit does not delete; `fields` are
    merged. The keys are named beside the rows:
    a plan that was made while the table was small would read all of it to join the two."""
    values = patch_assignments(column for column in columns if column not in table.key)
    same = " and ".join(f"t.{column} = x.{column}" for column in table.key)
    found = "{keys}" if only_one else "any({keys}::text[])"
    same += f" and t.{table.key[0]} = {found}"
    same += not_deleted(table, deleted_from)
    return f"update {{schema}}.{table.name} t set {values} from {source(table)} where {same}"


def patch_alike_text(table: Table, columns: tuple[str, ...]) -> str:
    """Change some columns of many rows alike."""
    return (
        f"update {{schema}}.{table.name} t set {patch_assignments(columns)} from gate,"
        f" jsonb_populate_record(null::{{schema}}.{table.name}, {{parameter}}::jsonb) x"
        f" where t.{table.key[0]} = any({{keys}}::text[])"
    )


def patch_assignments(columns: Iterable[str]) -> str:
    """The new values of columns, from a row `x`."""
    return ", ".join(assignment(column, f"x.{column}") for column in columns)


def assignment(column: str, value: str) -> str:
    """The new value of a column; `fields` are merged."""
    return f"{column} = t.fields || {value}" if column == "fields" else f"{column} = {value}"
