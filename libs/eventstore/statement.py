"""A commit, or several that touch different things, as one SQL statement: a data-modifying CTE.

Measured against separate statements in a transaction it does 16.0k commits/s instead of 4.4k. Every
part joins `gate`: where the gate has no row (a stale lease, a moved consumer), nothing is written.

Postgres runs the parts that nobody reads from last to first. Two things rest on it, and both are in
the contract suite: the inbox stands last, so that of two concurrent deliveries the second waits
there and learns the reply; deletions stand behind upserts and patches, so that they happen first.

Rows travel as `json`, never as `jsonb`: that would turn the 1e308 of a client into 309 digits, also
on its way to a column that keeps text (ADR 13).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from pydantic_core import to_json

from libs.contracts.message import Json, JsonObject
from libs.eventstore.ports import LEASE_SECONDS, Commit, InboxEntry, NewEvent
from libs.eventstore.rows import RowWrites, Table

EVENT_COLUMNS = (
    "aggregate_id text, version int, topic text, schema_version int, org text, about text, "
    "payload json, metadata jsonb, occurred_at timestamptz"
)
EVENT_NAMES = ", ".join(column.split()[0] for column in EVENT_COLUMNS.split(", "))

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
    parts = [f"gate as ({gate(schema, commits, parameters)})"]
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
            f"snapshotted as (insert into {schema}.snapshots (aggregate_id, version, state)"
            " select s.aggregate_id, s.version, s.state from gate,"
            " json_populate_recordset("
            f"null::{schema}.snapshots, %(snapshots)s::json) s on conflict (aggregate_id)"
            " do update set version = excluded.version, state = excluded.state)"
        )
    parts += row_parts(schema, folded(commits), parameters)
    inbox = [commit.inbox for commit in commits if commit.inbox]
    if inbox:
        parts.append(
            f"inboxed as (insert into {schema}.inbox (message_id, reply) select m.id, m.reply"
            f" from gate, {answered(inbox, parameters)} as m(id, reply))"
        )
    epochs = "(select jsonb_object_agg(key, epoch) from taken)" if takes else "null::jsonb"
    return f"with {', '.join(parts)} select {epochs} from gate", parameters


def gate(schema: str, commits: Sequence[Commit], parameters: dict[str, Any]) -> str:
    """The condition of everything, as a query with one row or none."""
    assert all(commit.conditions <= 1 for commit in commits), "a commit has one condition"
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
    parts: list[str] = []

    def part(text: str, value: Any, keys: list[Json] | None = None) -> None:
        name = f"rows_{len(parts)}"
        parameters[name] = value
        if keys is not None:
            parameters[f"{name}_keys"] = keys[0] if len(keys) == 1 else keys
        parts.append(filled(text, schema, name))

    for table, upserts in rows.upserts.items():
        for columns, batch in by_columns(upserts.values()):
            part(upsert_text(table, columns), to_json(batch).decode())
    for table, patches in rows.patches.items():
        for columns, batch in by_columns(patches.values()):
            if len(columns) > len(table.key):
                keys = [row[table.key[0]] for row in batch]
                text = patch_text(table, columns, only_one=len(keys) == 1)
                part(text, to_json(batch).decode(), keys)
    for table, alike, fields in rows.patches_alike:
        part(patch_alike_text(table, tuple(sorted(fields))), to_json(fields).decode(), [alike])
    for table, column, value in rows.deletions:
        text = f"delete from {{schema}}.{table.name} t using gate where t.{column} = {{parameter}}"
        part(text, value)
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


@lru_cache(TEXTS_MAX)
def patch_text(table: Table, columns: tuple[str, ...], *, only_one: bool) -> str:
    """Change some columns of existing rows; a `doc` is merged. The keys are named beside the rows:
    a plan that was made while the table was small would read all of it to join the two."""
    values = patched(column for column in columns if column not in table.key)
    same = " and ".join(f"t.{column} = x.{column}" for column in table.key)
    found = "{keys}" if only_one else "any({keys}::text[])"
    same += f" and t.{table.key[0]} = {found}"
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
