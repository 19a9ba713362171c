"""One commit as one SQL statement: a data-modifying CTE.

Measured against separate statements in a transaction it does 16.0k commits/s instead of 4.4k. Every
part joins `gate`: where the gate has no row (a stale lease, a moved consumer), nothing is written.

Postgres runs the parts that nobody reads from last to first. Two things rest on it, and both are in
the contract suite: the inbox stands last, so that of two concurrent deliveries the second waits
there and learns the reply; deletions stand behind upserts and patches, so that they happen first.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

from pydantic_core import to_json

from libs.contracts.message import JsonObject
from libs.eventstore.ports import LEASE_SECONDS, Commit, NewEvent
from libs.eventstore.rows import RowWrites, Table

EVENT_COLUMNS = (
    "aggregate_id text, version int, topic text, schema_version int, org text, about text, "
    "payload jsonb, metadata jsonb, occurred_at timestamptz"
)
EVENT_NAMES = ", ".join(column.split()[0] for column in EVENT_COLUMNS.split(", "))

# Taking a lease is one statement, so that of two takers one wins; an expired lease may be taken by
# anybody, a live one by nobody. No epoch comes twice: that is what fences a zombie off.
TAKE_LEASE = """insert into {schema}.leases as l (key, holder, expires_at)
select %(take_key)s, %(holder)s, now() + make_interval(secs => %(lease_seconds)s) from gate
on conflict (key) do update
set holder = excluded.holder, epoch = excluded.epoch, expires_at = excluded.expires_at
where l.expires_at < now() returning epoch"""


def commit_statement(schema: str, holder: str, commit: Commit) -> tuple[str, dict[str, Any]]:
    """The text and the parameters of a commit; the text repeats, so it stays prepared."""
    parameters: dict[str, Any] = {}
    parts = [f"gate as ({gate(schema, commit, parameters)})"]
    if commit.take_lease:
        parameters |= lease_parameters(commit.take_lease, holder)
        parts.append(f"taken as ({TAKE_LEASE.format(schema=schema)})")
    if commit.fence and commit.release_lease:
        parts.append(
            f"released as (delete from {schema}.leases l using gate where l.key = %(fence_key)s)"
        )
    if commit.events:
        parameters["events"] = events_json(commit.events)
        parts.append(
            f"appended as (insert into {schema}.events ({EVENT_NAMES}) select {EVENT_NAMES}"
            f" from gate, jsonb_to_recordset(%(events)s::jsonb) as e({EVENT_COLUMNS}))"
        )
    for index, snapshot in enumerate(commit.snapshots):
        parameters[f"snapshot_{index}_id"] = snapshot.aggregate_id
        parameters[f"snapshot_{index}_version"] = snapshot.version
        parameters[f"snapshot_{index}_state"] = to_json(snapshot.state).decode()
        parts.append(
            f"snapshot_{index} as (insert into {schema}.snapshots (aggregate_id, version, state)"
            f" select %(snapshot_{index}_id)s, %(snapshot_{index}_version)s,"
            f" %(snapshot_{index}_state)s::jsonb from gate on conflict (aggregate_id) do update"
            " set version = excluded.version, state = excluded.state)"
        )
    parts += row_parts(schema, commit.rows, parameters)
    if commit.inbox:
        parameters["message_id"] = commit.inbox.message_id
        parameters["reply"] = commit.inbox.reply_json
        parts.append(
            f"inboxed as (insert into {schema}.inbox (message_id, reply)"
            " select %(message_id)s, %(reply)s from gate)"
        )
    epoch = "(select epoch from taken)" if commit.take_lease else "null::bigint"
    return f"with {', '.join(parts)} select {epoch} from gate", parameters


def gate(schema: str, commit: Commit, parameters: dict[str, Any]) -> str:
    """The condition of the whole commit, as a query with one row or none."""
    assert not (commit.fence and commit.move), "a commit has one condition"
    if commit.fence:
        parameters["fence_key"] = commit.fence.key
        parameters["fence_epoch"] = commit.fence.epoch
        return (
            f"select 1 from {schema}.leases where key = %(fence_key)s"
            " and epoch = %(fence_epoch)s for update"
        )
    if commit.move:
        parameters["upstream"] = commit.move.upstream
        parameters["expected"] = commit.move.expected
        parameters["to"] = commit.move.to
        return (
            f"update {schema}.positions set position = %(to)s"
            " where upstream = %(upstream)s and position = %(expected)s returning 1"
        )
    return "select 1"


def lease_parameters(key: str, holder: str) -> dict[str, Any]:
    """The parameters of `TAKE_LEASE`."""
    return {"take_key": key, "holder": holder, "lease_seconds": LEASE_SECONDS}


def events_json(events: list[NewEvent]) -> str:
    """The events as one JSON array; payloads are JSON already and are not parsed again."""
    return "[" + ",".join(map(event_json, events)) + "]"


def event_json(event: NewEvent) -> str:
    """One event as a JSON object with the columns of the log."""
    columns: JsonObject = {
        "aggregate_id": event.aggregate_id,
        "version": event.version,
        "topic": event.topic,
        "schema_version": event.schema_version,
        "org": event.org,
        "about": event.about,
        "metadata": event.metadata,
        "occurred_at": event.occurred_at.isoformat(),
    }
    return f'{to_json(columns).decode()[:-1]},"payload":{event.payload_json}}}'


def row_parts(schema: str, rows: RowWrites, parameters: dict[str, Any]) -> list[str]:
    """One CTE for every table, kind of write and set of columns."""
    parts: list[str] = []

    def part(text: str, value: Any) -> None:
        name = f"rows_{len(parts)}"
        parameters[name] = value
        parts.append(f"{name} as ({text.format(schema=schema, parameter=f'%({name})s')})")

    for table, upserts in rows.upserts.items():
        for columns, batch in by_columns(upserts.values()):
            part(upsert_text(table, columns), to_json(batch).decode())
    for table, patches in rows.patches.items():
        for columns, batch in by_columns(patches.values()):
            if len(columns) > len(table.key):
                part(patch_text(table, columns), to_json(batch).decode())
    for table, column, value in rows.deletions:
        text = f"delete from {{schema}}.{table.name} t using gate where t.{column} = {{parameter}}"
        part(text, value)
    return parts


def by_columns(rows: Any) -> list[tuple[tuple[str, ...], list[JsonObject]]]:
    """Rows grouped by the columns that they set."""
    ordered = sorted(rows, key=lambda row: sorted(row))
    return [(tuple(columns), list(batch)) for columns, batch in groupby(ordered, key=sorted)]


def source(table: Table) -> str:
    """The rows of a parameter, typed as the table's own columns."""
    return f"gate, jsonb_populate_recordset(null::{{schema}}.{table.name}, {{parameter}}::jsonb) x"


def upsert_text(table: Table, columns: tuple[str, ...]) -> str:
    """Insert the rows, or replace them."""
    names = ", ".join(columns)
    changed = [column for column in columns if column not in table.key]
    values = ", ".join(f"{column} = excluded.{column}" for column in changed)
    action = f"update set {values}" if changed else "nothing"
    return (
        f"insert into {{schema}}.{table.name} ({names})"
        f" select {', '.join(f'x.{column}' for column in columns)} from {source(table)}"
        f" on conflict ({', '.join(table.key)}) do {action}"
    )


def patch_text(table: Table, columns: tuple[str, ...]) -> str:
    """Change some columns of existing rows; a `doc` is merged."""
    values = ", ".join(
        f"{column} = t.doc || x.doc" if column == "doc" else f"{column} = x.{column}"
        for column in columns
        if column not in table.key
    )
    same = " and ".join(f"t.{column} = x.{column}" for column in table.key)
    return f"update {{schema}}.{table.name} t set {values} from {source(table)} where {same}"
