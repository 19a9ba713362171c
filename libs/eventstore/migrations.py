"""Bring a service's schema up to date: numbered SQL files, each applied once, all or nothing."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from libs.contracts.service_registry import database_role
from libs.eventstore.read_model_rows import Table

# The store's own tables come before those of the service.
STORE_FILES = tuple(sorted(Path(__file__).parent.glob("store_*.sql")))
MIGRATION_LOCK = 4_815_162_342

GRANTS = """
grant usage on schema {schema} to {role}, heeler_reader;
grant select, insert on {schema}.events to {role};
grant select, insert, update, delete on all tables in schema {schema} to {role};
grant usage on all sequences in schema {schema} to {role};
grant execute on function {schema}.erase_events to {role};
revoke update, delete, truncate on {schema}.events from {role};
"""

# Transaction ids count in one cluster. A database that was restored from a dump into another one
# has events from its future: the relay would leave them out until the counter got there, and all
# that is written meanwhile for ever. What it has numbered goes behind its cursor, the rest before.
FROM_ANOTHER_CLUSTER = """
select exists (
    select from {schema}.events where xid >= pg_snapshot_xmax(pg_current_snapshot()))
"""
RENUMBER = """
update {schema}.events e
set xid = case when l.position is null then '1'::xid8 else '0'::xid8 end
from {schema}.events f left join {schema}.log l on l.event_position = f.position
where f.position = e.position;
update {schema}.relay
set xid = '0', event_position = (select coalesce(max(position), 0) from {schema}.events);
"""
# What is committed from now on comes after all that was, in every schema: also in those whose own
# events are not from the future.
SCHEMAS_WITH_EVENTS = """
select n.nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relname = 'events' and c.relkind = 'r' and to_regclass(n.nspname || '.relay') is not null"""
RESTORED = "the order of a restored log"

RELATIONS = """
select c.relname, c.relkind::text from pg_class c
where c.relnamespace = to_regnamespace(%s) and c.relkind in ('r', 'v')
order by c.oid"""

VIEW = """
select pg_get_viewdef(c.oid), coalesce(obj_description(c.oid), ''), array(
    select grantee::regrole::text from aclexplode(c.relacl) where grantee <> c.relowner)
from pg_class c where c.oid = %s::regclass"""

TRIGGERS = """
select tgname, pg_get_triggerdef(oid) from pg_trigger
where tgrelid = %s::regclass and not tgisinternal order by tgname"""


class EarlierHome(Exception):
    """A schema was made by migrations that differ from those of this checkout."""

    def __init__(self, service: str, file: str) -> None:
        super().__init__(
            f"The schema {service} of this database was made by another commit of Heeler: its"
            f" migration {file} is not the one of this commit. Start it with that commit, where"
            " `make dump` keeps a copy, or delete the data with `make wipe`."
        )


def migrate(
    connection: psycopg.Connection[object], service: str, password: str, files: Iterable[Path]
) -> list[str]:
    """Create or update the schema `service` and its role `heeler_<service>`.

    Returns the names of what was applied now. Safe to run again and from several processes. Raises
    EarlierHome, and changes nothing, where a migration was applied in another form than its file
    has now. Migrations that only a newer version knows are left alone.
    """
    applied: list[str] = []
    with connection.transaction():
        connection.execute("select pg_advisory_xact_lock(%s)", [MIGRATION_LOCK])
        create_reader(connection, service, password)
        connection.execute(f"create schema if not exists {service}")
        connection.execute(
            f"create table if not exists {service}.migrations (name text primary key,"
            " checksum text not null, applied_at timestamptz not null default now())"
        )
        texts = {file.name: file.read_text() for file in (*STORE_FILES, *sorted(files))}
        known = applied_checksums(connection, service)
        for name, checksum in known.items():
            if checksum is None or (name in texts and checksum != checksum_of(texts[name])):
                raise EarlierHome(service, name)
        for name, text in texts.items():
            if name in known:
                continue
            connection.execute(text.replace("{schema}", service).encode())
            connection.execute(
                f"insert into {service}.migrations (name, checksum) values (%s, %s)",
                [name, checksum_of(text)],
            )
            applied.append(name)
        if connection.execute(FROM_ANOTHER_CLUSTER.format(schema=service).encode()).fetchone() == (
            True,
        ):
            connection.execute(RENUMBER.format(schema=service).encode())
            order_new_commits_last(connection)
            applied.append(RESTORED)
        grants = GRANTS.format(schema=service, role=database_role(service))
        connection.execute(grants.encode())
    return applied


def order_new_commits_last(connection: psycopg.Connection[object]) -> None:
    """Let the order of commits go on behind what the logs of all services have."""
    rows: list[Any] = connection.execute(SCHEMAS_WITH_EVENTS.encode()).fetchall()
    schemas = [row[0] for row in rows]
    logs = " union all ".join(
        f"select max(commit_order) as last from {name}.events" for name in schemas
    )
    newest: Any = connection.execute(
        f"select coalesce(max(last), 0) from ({logs}) of_each".encode()
    ).fetchone()
    for name in schemas:
        default = f"{newest[0]} + pg_current_xact_id()::text::bigint"
        connection.execute(
            f"alter table {name}.events alter column commit_order set default {default}".encode()
        )


def applied_checksums(connection: psycopg.Connection[Any], service: str) -> dict[str, str | None]:
    """The migrations of a schema, each with its checksum; None where a commit before checksums
    applied it."""
    statement = f"select name, to_jsonb(m)->>'checksum' from {service}.migrations m order by name"
    return dict(connection.execute(statement).fetchall())


def checksum_of(text: str) -> str:
    """A checksum of the statements of a migration: comments and spaces do not count."""
    words = re.sub(r"--.*", "", text).split()
    return hashlib.sha256(" ".join(words).encode()).hexdigest()


def create_reader(connection: psycopg.Connection[object], service: str, password: str) -> None:
    """A role `heeler_<service>` that may read what the services publish."""
    create_role(connection, "heeler_reader", None)
    create_role(connection, database_role(service), password)
    connection.execute(f"grant heeler_reader to {database_role(service)}")


def create_role(connection: psycopg.Connection[object], role: str, password: str | None) -> None:
    """A role of this name with this password (None: one that only carries rights)."""
    exists = connection.execute("select 1 from pg_roles where rolname = %s", [role]).fetchone()
    name = sql.Identifier(role)
    if not exists:
        connection.execute(sql.SQL("create role {}").format(name))
    if password is not None:
        connection.execute(
            sql.SQL("alter role {} login password {}").format(name, sql.Literal(password))
        )


def restore_missing(
    connection: psycopg.Connection[Any],
    service: str,
    files: Iterable[Path],
    tables: Iterable[Table],
) -> list[str]:
    """Make those of these tables that are missing, and the views that went with them; returns their
    names. The migrations make all in a schema for the purpose: tables are moved from there, views
    are made again over the tables of the service."""
    wanted = {table.name for table in tables}
    if not wanted - relations(connection, service).keys():
        return []
    aside = f"{service}_restored"
    with connection.transaction():
        connection.execute("select pg_advisory_xact_lock(%s)", [MIGRATION_LOCK])
        connection.execute(f"create schema {aside}".encode())
        for file in (*STORE_FILES, *sorted(files)):
            connection.execute(file.read_text().replace("{schema}", aside).encode())
        present, made = relations(connection, service), relations(connection, aside)
        missing = {
            name: kind
            for name, kind in made.items()
            if name not in present and (kind == "v" or name in wanted)
        }
        for name, kind in missing.items():
            if kind == "r":
                move_table(connection, name, aside, service)
        for name, kind in missing.items():
            if kind == "v":
                copy_view(connection, name, aside, service)
        drop_relations(connection, aside)
        connection.execute(f"drop schema {aside} cascade".encode())
        connection.execute(GRANTS.format(schema=service, role=database_role(service)).encode())
    return sorted(missing)


def move_table(connection: psycopg.Connection[Any], name: str, aside: str, service: str) -> None:
    """Move a table of the schema `aside` into that of the service, whose functions its triggers
    call there; and forget what these counted of the table that was lost."""
    triggers = connection.execute(TRIGGERS, [f"{aside}.{name}"]).fetchall()
    connection.execute(f"alter table {aside}.{name} set schema {service}".encode())
    for trigger, definition in triggers:
        connection.execute(f"drop trigger {trigger} on {service}.{name}".encode())
        connection.execute(definition.replace(f"{aside}.", f"{service}.").encode())
    connection.execute(f"truncate {service}.{name}".encode())


def copy_view(connection: psycopg.Connection[Any], name: str, aside: str, service: str) -> None:
    """Make a view of the schema `aside` in that of the service, with its comment and rights."""
    found = connection.execute(VIEW, [f"{aside}.{name}"]).fetchone()
    assert found, f"{aside}.{name} is a view"
    definition, comment, grantees = found
    text = definition.replace(f"{aside}.", f"{service}.")
    connection.execute(f"create view {service}.{name} as {text}".encode())
    view = sql.Identifier(service, name)
    connection.execute(sql.SQL("comment on view {} is {}").format(view, sql.Literal(comment)))
    for role in grantees:
        connection.execute(sql.SQL("grant select on {} to {}").format(view, sql.Identifier(role)))


def drop_relations(connection: psycopg.Connection[Any], schema: str) -> None:
    """Empty a schema, views first. Fails if something elsewhere still reads a table of it."""
    newest_first = reversed(relations(connection, schema).items())
    for name, kind in sorted(newest_first, key=lambda relation: relation[1] != "v"):
        what = "view" if kind == "v" else "table"
        connection.execute(f"drop {what} {schema}.{name}".encode())


def relations(connection: psycopg.Connection[Any], schema: str) -> dict[str, str]:
    """The tables (r) and views (v) of a schema."""
    return dict(connection.execute(RELATIONS, [schema]).fetchall())
