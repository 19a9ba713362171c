"""A commit, or several that touch different things, as one SQL statement: a data-modifying CTE.

Measured against separate statements in a transaction it does 16.0k commits/s instead of 4.4k. Every
part joins `gate`: where the gate has no row (a stale lease, a moved consumer), nothing is written.

In which order Postgres runs parts that do not read each other is not certain, and no row may be
written by two of them. So each row is written by one part (`read_model_rows` merges), and what has
to come first is read by what comes later. The inbox is written before everything else: of two
concurrent deliveries the second waits there, and learns the reply. Deletions come before upserts of
the same table, and a patch passes over the rows that they took.

Rows travel as `json`, never as `jsonb`: that would turn the 1e308 of a client into 309 digits, also
on its way to a column that keeps text (ADR 13).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from pydantic_core import to_json

from libs.contracts.bus_messages import Json, JsonObject
from libs.eventstore.ports import (
    LEASE_SECONDS,
    SNAPSHOT_KEPT_EVENTS,
    Commit,
    InboxEntry,
    NewEvent,
)
from libs.eventstore.read_model_rows import RowWrites, Table

EVENT_COLUMNS = (
    "aggregate_id text, version int, topic text, schema_version int, org text, about text, "
    "payload json, metadata jsonb, occurred_at timestamptz"
)
EVENT_NAMES = ", ".join(column.split()[0] for column in EVENT_COLUMNS.split(", "))
SNAPSHOT_NAMES = "aggregate_id, state_version, version, org, state"

# Texts that are kept: they are long, and the same few each time.
TEXTS_MAX = 1_024

# Taking a lease is one statement, so that of two takers one wins; an expired lease may be taken by
# anybody, a live one by nobody. No epoch comes twice: that is what fences a zombie off.
TAKE_LEASES = """insert into {schema}.leases as l (key, holder, expires_at)
select taking.key, %(holder)s, now() + make_interval(secs => %(lease_seconds)s)
from gate, {taking} as taking(key)
on conflict (key) do update
set holder = excluded.holder, epoch = excluded.epoch, expires_at = excluded.expires_at
where l.expires_at < now() returning l.key, l.epoch"""


def commit_statement(
    schema: str, holder: str, commits: Sequence[Commit]
) -> tuple[str, dict[str, Any]]:
    """The text and the parameters of commits that are made together; the text repeats, so it
    stays prepared. Its one row has the epochs of the leases that were taken, by key."""
    parameters: dict[str, Any] = {}
    parts = gate_parts(schema, commits, parameters)
    takes = sorted(commit.take_lease for commit in commits if commit.take_lease)
    if takes:
        parameters |= lease_parameters(takes, holder)
        parts.append(f"taken as ({take_leases(schema, takes)})")
    released = sorted(one.fence.key for one in commits if one.fence and one.release_lease)
    if released and len(commits) > 1:
        parameters["released"] = released
        parts.append(
            f"released as (delete from {schema}.leases l using gate"
            " where l.key = any(%(released)s))"
        )
    events = [event for commit in commits for event in commit.events]
    if events:
        parameters["events"] = events_json(events)
        parts.append(
            f"appended as (insert into {schema}.events ({EVENT_NAMES}) select {EVENT_NAMES}"
            f" from gate, json_to_recordset(%(events)s::json) as e({EVENT_COLUMNS}))"
        )
    snapshots = [snapshot for commit in commits for snapshot in commit.snapshots]
    if snapshots:
        parameters["snapshots"] = to_json(snapshots).decode()
        parts.append(
            f"snapshotted as (insert into {schema}.state_snapshots ({SNAPSHOT_NAMES})"
            f" select {SNAPSHOT_NAMES} from gate, json_populate_recordset("
            f"null::{schema}.state_snapshots, %(snapshots)s::json) s"
            " on conflict (aggregate_id, state_version)"
            " do update set version = excluded.version, state = excluded.state)"
        )
        parts.append(
            f"outlived as (delete from {schema}.state_snapshots old using gate,"
            f" json_populate_recordset(null::{schema}.state_snapshots, %(snapshots)s::json) s"
            " where old.aggregate_id = s.aggregate_id and old.state_version <> s.state_version"
            f" and old.version < s.version - {SNAPSHOT_KEPT_EVENTS})"
        )
    first = [snapshot for commit in commits for snapshot in commit.first_snapshots]
    if first:
        parameters["first_snapshots"] = to_json(first).decode()
        parts.append(
            f"first_snapshotted as (insert into {schema}.snapshots as known"
            " (aggregate_id, version, state) select s.aggregate_id, s.version, s.state"
            f" from gate, json_populate_recordset(null::{schema}.snapshots,"
            " %(first_snapshots)s::json) s on conflict (aggregate_id) do update"
            " set version = excluded.version, state = excluded.state"
            " where known.version < excluded.version)"
        )
    parts += row_parts(schema, folded(commits), parameters)
    epochs = "(select jsonb_object_agg(key, epoch) from taken)" if takes else "null::jsonb"
    return f"with {', '.join(parts)} select {epochs} from gate", parameters


def gate_parts(schema: str, commits: Sequence[Commit], parameters: dict[str, Any]) -> list[str]:
    """The condition of everything; it lets pass when the inbox is written."""
    condition = gate(schema, commits, parameters)
    inbox = [commit.inbox for commit in commits if commit.inbox]
    if not inbox:
        return [f"gate as ({condition})"]
    return [
        f"condition as ({condition})",
        f"inboxed as (insert into {schema}.inbox (message_id, reply) select m.id, m.reply"
        f" from condition, {answered(inbox, parameters)} as m(id, reply) returning 1)",
        "gate as (select 1 from condition where (select count(*) from inboxed) > 0)",
    ]


def gate(schema: str, commits: Sequence[Commit], parameters: dict[str, Any]) -> str:
    """The condition of everything, as a query with one row or none."""
    for commit in commits:
        assert commit.conditions <= 1, "a commit has one condition"
        assert not commit.fence or commit.fence.key != commit.take_lease, "a lease is written once"
    moves = [commit.move for commit in commits if commit.move]
    fences = sorted((commit.fence for commit in commits if commit.fence), key=lambda one: one.key)
    if moves:
        assert len(commits) == 1, "a consumer's commit is made alone"
        parameters |= asdict(moves[0])
        return (
            f"update {schema}.positions set position = %(to)s"
            " where upstream = %(upstream)s and position = %(expected)s returning 1"
        )
    if len(commits) == 1 and fences:
        return gate_of_one(schema, commits[0], parameters)
    relied_on = [known for commit in commits for known in commit.unchanged.items()]
    unchanged = unchanged_text(schema, relied_on, parameters) if relied_on else "true"
    if not fences:
        return f"select 1 where {unchanged}"
    parameters["fence_keys"] = [fence.key for fence in fences]
    parameters["fence_epochs"] = [fence.epoch for fence in fences]
    parameters["fences"] = len(fences)
    return (
        f"select 1 from (select count(*) as held from (select 1 from {schema}.leases l"
        " join unnest(%(fence_keys)s::text[], %(fence_epochs)s::bigint[]) as f(key, epoch)"
        " on l.key = f.key and l.epoch = f.epoch"
        " where l.key = any(%(fence_keys)s::text[]) order by l.key for update of l) locked) c"
        f" where c.held = %(fences)s and {unchanged}"
    )


def unchanged_text(
    schema: str, relied_on: list[tuple[str, int]], parameters: dict[str, Any]
) -> str:
    """The condition that nothing has happened to these aggregates since these versions."""
    if len(relied_on) == 1:
        [(parameters["known_id"], parameters["known_version"])] = relied_on
        known = "e.aggregate_id = %(known_id)s and e.version = %(known_version)s + 1"
        return f"not exists (select from {schema}.events e where {known})"
    parameters["known_ids"] = [aggregate_id for aggregate_id, _ in relied_on]
    parameters["known_versions"] = [version for _, version in relied_on]
    return (
        "not exists (select from unnest(%(known_ids)s::text[], %(known_versions)s::int[])"
        f" as known(id, version) cross join lateral (select from {schema}.events e"
        " where e.aggregate_id = known.id and e.version = known.version + 1 limit 1) newer)"
    )


def gate_of_one(schema: str, commit: Commit, parameters: dict[str, Any]) -> str:
    """The condition of a commit by itself: its lease, which is given back in the same step if it is
    not needed any more. Arrays for a single key cost 0.2 ms more."""
    assert commit.fence is not None, "the condition is a lease"
    parameters |= {"fence_key": commit.fence.key, "fence_epoch": commit.fence.epoch}
    held = f"{schema}.leases l where l.key = %(fence_key)s and l.epoch = %(fence_epoch)s"
    if commit.release_lease:
        return f"delete from {held} returning 1"
    return f"select 1 from {held} for update of l"


def answered(inbox: list[InboxEntry], parameters: dict[str, Any]) -> str:
    """The messages and their replies as rows."""
    if len(inbox) == 1:
        parameters |= {"message_id": inbox[0].message_id, "reply": inbox[0].reply_json}
        return "(values (%(message_id)s, %(reply)s))"
    parameters["message_ids"] = [entry.message_id for entry in inbox]
    parameters["replies"] = [entry.reply_json for entry in inbox]
    return "unnest(%(message_ids)s::text[], %(replies)s::text[])"


def take_leases(schema: str, keys: list[str]) -> str:
    """The part that takes the leases of these keys, where they are free."""
    one, many = "(values (%(take_key)s))", "unnest(%(take_keys)s::text[])"
    return TAKE_LEASES.format(schema=schema, taking=one if len(keys) == 1 else many)


def folded(commits: Sequence[Commit]) -> RowWrites:
    """The row writes of commits that touch different rows."""
    if len(commits) == 1:
        return commits[0].rows
    together = RowWrites()
    for commit in commits:
        assert not commit.alone, "a commit that deletes is made alone"
        for table, upserts in commit.rows.upserts.items():
            together.upserts.setdefault(table, {}).update(upserts)
        for table, patches in commit.rows.patches.items():
            together.patches.setdefault(table, {}).update(patches)
    return together


def lease_parameters(keys: list[str], holder: str) -> dict[str, Any]:
    """The parameters of `take_leases`."""
    named: dict[str, Any] = {"take_key": keys[0]} if len(keys) == 1 else {"take_keys": keys}
    return {**named, "holder": holder, "lease_seconds": LEASE_SECONDS}


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
    parts = deletion_parts(schema, rows, parameters)
    deleted_from = {one.table for one in rows.deletions}

    def part(text: str, value: Any, keys: list[Json] | None = None) -> None:
        name = f"rows_{len(parts)}"
        parameters[name] = value
        if keys is not None:
            parameters[f"{name}_keys"] = keys[0] if len(keys) == 1 else keys
        parts.append(filled(text, schema, name))

    for table, upserts in rows.upserts.items():
        for columns, batch in by_columns(upserts.values()):
            text = upsert_text(table, columns, deleted_from=table in deleted_from)
            part(text, to_json(batch).decode())
    for table, patches in rows.patches.items():
        for columns, batch in by_columns(patches.values()):
            if len(columns) > len(table.key):
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
    for number, one in enumerate(rows.deletions):
        name = f"deleted_{number}"
        parameters[name] = one.value
        condition = f"t.{one.column} = %({name})s"
        if one.spared:
            parameters[f"{name}_spared"] = one.spared
            condition += f" and t.{one.table.key[0]} <> all(%({name}_spared)s::text[])"
        conditions.setdefault(one.table, []).append(condition)
    parts = []
    for table, any_of in conditions.items():
        text = f"delete from {schema}.{table.name} t using gate where {' or '.join(any_of)}"
        if rows.upserts.get(table) or rows.patches.get(table):
            text += f" returning {', '.join(f't.{column}' for column in table.key)}"
        parts.append(f"deleted_from_{table.name} as ({text})")
    return parts


@lru_cache(TEXTS_MAX)
def filled(text: str, schema: str, name: str) -> str:
    """The CTE of a part, which has its parameters by its own name."""
    part = text.format(schema=schema, parameter=f"%({name})s", keys=f"%({name}_keys)s")
    return f"{name} as ({part})"


def by_columns(rows: Iterable[JsonObject]) -> list[tuple[tuple[str, ...], list[JsonObject]]]:
    """Rows grouped by the columns that they set."""
    groups: dict[tuple[str, ...], list[JsonObject]] = {}
    for row in rows:
        groups.setdefault(tuple(sorted(row)), []).append(row)
    return sorted(groups.items())


def source(table: Table) -> str:
    """The rows of a parameter, typed as the table's own columns."""
    return f"gate, json_populate_recordset(null::{{schema}}.{table.name}, {{parameter}}::json) x"


@lru_cache(TEXTS_MAX)
def upsert_text(table: Table, columns: tuple[str, ...], *, deleted_from: bool) -> str:
    """Insert the rows, or replace them; after the commit's own deletions."""
    names = ", ".join(columns)
    changed = [column for column in columns if column not in table.key]
    values = ", ".join(f"{column} = excluded.{column}" for column in changed)
    action = f"update set {values}" if changed else "nothing"
    after = f" where (select count(*) from deleted_from_{table.name}) >= 0" if deleted_from else ""
    return (
        f"insert into {{schema}}.{table.name} ({names})"
        f" select {', '.join(f'x.{column}' for column in columns)} from {source(table)}{after}"
        f" on conflict ({', '.join(table.key)}) do {action}"
    )


@lru_cache(TEXTS_MAX)
def patch_text(
    table: Table, columns: tuple[str, ...], *, only_one: bool, deleted_from: bool
) -> str:
    """Change some columns of rows that exist and that the commit does not delete; a `doc` is
    merged. The keys are named beside the rows:
    a plan that was made while the table was small would read all of it to join the two."""
    values = patched(column for column in columns if column not in table.key)
    same = " and ".join(f"t.{column} = x.{column}" for column in table.key)
    found = "{keys}" if only_one else "any({keys}::text[])"
    same += f" and t.{table.key[0]} = {found}"
    if deleted_from:
        gone = " and ".join(f"d.{column} = t.{column}" for column in table.key)
        same += f" and not exists (select from deleted_from_{table.name} d where {gone})"
    return f"update {{schema}}.{table.name} t set {values} from {source(table)} where {same}"


def patch_alike_text(table: Table, columns: tuple[str, ...]) -> str:
    """Change some columns of many rows alike."""
    return (
        f"update {{schema}}.{table.name} t set {patched(columns)} from gate,"
        f" jsonb_populate_record(null::{{schema}}.{table.name}, {{parameter}}::jsonb) x"
        f" where t.{table.key[0]} = any({{keys}}::text[])"
    )


def patched(columns: Iterable[str]) -> str:
    """The new values of columns; a `doc` is merged."""
    return ", ".join(
        f"{column} = t.doc || x.doc" if column == "doc" else f"{column} = x.{column}"
        for column in columns
    )
