"""Make read-model tables again that somebody has dropped, as the migrations made them: empty."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psycopg

from libs.eventstore.migrations import GRANTS, MIGRATION_LOCK, STORE_FILES
from libs.eventstore.read_model_rows import Table

RELATIONS = """
select c.relname, c.relkind::text from pg_class c
where c.relnamespace = to_regnamespace(%s) and c.relkind in ('r', 'v')"""


def restore_missing(
    connection: psycopg.Connection[Any],
    service: str,
    files: Iterable[Path],
    tables: Iterable[Table],
) -> list[str]:
    """Make those of these tables that are missing, and the views that went with them; returns their
    names. The migrations make them in a schema for the purpose, and they are moved from there."""
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
            what = "view" if kind == "v" else "table"
            connection.execute(f"alter {what} {aside}.{name} set schema {service}".encode())
        drop_relations(connection, aside)
        connection.execute(f"drop schema {aside} cascade".encode())
        connection.execute(GRANTS.format(schema=service, role=f"heeler_{service}").encode())
    return sorted(missing)


def drop_relations(connection: psycopg.Connection[Any], schema: str) -> None:
    """Empty a schema, views first. Fails if something elsewhere still reads a table of it, as a
    view would that was moved away without it."""
    for name, kind in sorted(
        relations(connection, schema).items(), key=lambda relation: relation[1] != "v"
    ):
        what = "view" if kind == "v" else "table"
        connection.execute(f"drop {what} {schema}.{name}".encode())


def relations(connection: psycopg.Connection[Any], schema: str) -> dict[str, str]:
    """The tables (r) and views (v) of a schema."""
    return dict(connection.execute(RELATIONS, [schema]).fetchall())
