"""Create or update the schema and the role of every service, rebuild the read models for which a
migration asks that, and declare the streams of the bus: `python -m deploy.migrate`.

Reads HEELER_ADMIN_DATABASE_URL (a role that may create roles and schemas),
HEELER_SERVICE_PASSWORDS (JSON, service to password) and, where there is a bus, HEELER_NATS_URL (of
a user who may change streams). Safe to run at every start.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

import psycopg
from psycopg import sql

from deploy.rebuild import migration_files, rebuild_asked
from libs.bus import nats_clients_without_extras  # noqa: F401
from libs.bus.jetstream import declare_streams
from libs.contracts.moments import MOMENT_TABLES
from libs.contracts.service_registry import names
from libs.eventstore.as_of_schema import create_as_of_schema
from libs.eventstore.migrations import EarlierHome, create_reader, migrate

# A restore that died has left the database closed to the services.
IS_CLOSED = "select datconnlimit = 0 from pg_database where datname = current_database()"


def migrate_all(url: str, passwords: dict[str, str]) -> dict[str, list[str]]:
    """Migrate every service; returns what was applied now, per service."""
    with psycopg.connect(url, autocommit=True) as connection:
        open_database(connection)
        # Migrations may publish views to roles that are made here.
        for service in names():
            create_reader(connection, service, passwords[service])
        applied = {
            service: migrate(connection, service, passwords[service], migration_files(service))
            for service in names()
        }
        for service, tables in MOMENT_TABLES.items():
            if create_as_of_schema(connection, service, tables):
                applied[service].append("the views of the past")
        return applied


def open_database(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    """Let the services in again where a restore has kept them out and did not end."""
    if connection.execute(IS_CLOSED).fetchone() == (True,):
        name = sql.Identifier(connection.info.dbname)
        connection.execute(sql.SQL("alter database {} connection limit -1").format(name))


if __name__ == "__main__":
    try:
        done = migrate_all(
            os.environ["HEELER_ADMIN_DATABASE_URL"],
            json.loads(os.environ["HEELER_SERVICE_PASSWORDS"]),
        )
    except EarlierHome as problem:
        sys.exit(str(problem))
    for name, files in done.items():
        print(f"{name}: {', '.join(files) or 'up to date'}")
    rebuild_asked(os.environ["HEELER_ADMIN_DATABASE_URL"], print)
    if "HEELER_NATS_URL" in os.environ:
        for stream in asyncio.run(declare_streams(os.environ["HEELER_NATS_URL"])):
            print(f"{stream}: changed")
