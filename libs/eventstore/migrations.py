"""Bring a service's schema up to date: numbered SQL files, each applied once, all or nothing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import psycopg
from psycopg import sql

from libs.contracts.service_registry import database_role

# The store's own tables in the order of their making; the services' come after them.
STORE_FILES = (
    "schema.sql",
    "store_0002_dead_letters.sql",
    "store_0003_json_as_it_came.sql",
    "store_0004_snapshots_by_state.sql",
    "store_0005_rebuilds.sql",
)
MIGRATION_LOCK = 4_815_162_342

GRANTS = """
grant usage on schema {schema} to {role}, heeler_reader;
grant select, insert on {schema}.events to {role};
grant select, insert, update, delete on all tables in schema {schema} to {role};
grant usage on all sequences in schema {schema} to {role};
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
RESTORED = "the order of a restored log"


def migrate(
    connection: psycopg.Connection[object], service: str, password: str, files: Iterable[Path]
) -> list[str]:
    """Create or update the schema `service` and its role `heeler_<service>`.

    Returns the names of what was applied now. Safe to run again and from several processes.
    """
    applied: list[str] = []
    with connection.transaction():
        connection.execute("select pg_advisory_xact_lock(%s)", [MIGRATION_LOCK])
        create_reader(connection, service, password)
        connection.execute(f"create schema if not exists {service}")
        connection.execute(
            f"create table if not exists {service}.migrations"
            " (name text primary key, applied_at timestamptz not null default now())"
        )
        rows = connection.execute(f"select name from {service}.migrations").fetchall()
        known = {row[0] for row in rows}  # type: ignore[index]
        for file in (*map(Path(__file__).with_name, STORE_FILES), *sorted(files)):
            if file.name in known:
                continue
            connection.execute(file.read_text().replace("{schema}", service).encode())
            connection.execute(f"insert into {service}.migrations (name) values (%s)", [file.name])
            applied.append(file.name)
        if connection.execute(FROM_ANOTHER_CLUSTER.format(schema=service).encode()).fetchone() == (
            True,
        ):
            connection.execute(RENUMBER.format(schema=service).encode())
            applied.append(RESTORED)
        grants = GRANTS.format(schema=service, role=database_role(service))
        connection.execute(grants.encode())
    return applied


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
