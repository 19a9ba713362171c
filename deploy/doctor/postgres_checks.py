"""Postgres: reachable, new enough, with pgvector, migrated, with room for more."""

from __future__ import annotations

from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import psycopg

from deploy.doctor.examined import DATABASE_VARIABLES, Examined
from deploy.doctor.findings import Finding, ok, problem, skip, warning
from deploy.embedded.postgres_server import without_password
from deploy.rebuild import migration_files
from libs.contracts.service_registry import names
from libs.eventstore.migrations import STORE_FILES, applied_checksums, checksum_of

CONNECT_SECONDS_MAX = 4
STATEMENT_MS_MAX = 5_000
VERSION_LEAST = 17
CONNECTIONS_LEFT_MIN, CONNECTIONS_LEFT_LOW = 3, 15
DATABASE_BYTES_LARGE = 100 << 30
NOT_RUNNING = "no server runs in this home, and HEELER_DATABASE_URL names no other"

type Connection = psycopg.Connection[tuple[Any, ...]]


def connect(url: str) -> Connection:
    """A session that reads, for a few seconds. Raises psycopg.OperationalError."""
    return psycopg.connect(
        url,
        autocommit=True,
        connect_timeout=CONNECT_SECONDS_MAX,
        options=f"-c statement_timeout={STATEMENT_MS_MAX} -c default_transaction_read_only=on",
    )


def check_postgres(examined: Examined) -> list[Finding]:
    """Whether it answers, what it is, and whether its schemas are those of this release."""
    if examined.database_url is None:
        return [skip(NOT_RUNNING)]
    try:
        connection = connect(examined.database_url)
    except psycopg.Error as failed:
        return [_unreachable(examined, examined.database_url, failed)]
    with closing(connection):
        found = [_version(connection)]
        try:
            found += [_vector(examined, connection), _connections(connection), _size(connection)]
        except psycopg.Error as failed:
            text = f"it does not answer every question: {type(failed).__name__}"
            found.append(warning(text, f"export {DATABASE_VARIABLES[0]}=<url of a superuser>"))
        return found


def check_migrations(examined: Examined) -> Finding:
    """Whether every schema is as this release makes it."""
    if examined.database_url is None:
        return skip(NOT_RUNNING)
    try:
        with closing(connect(examined.database_url)) as connection:
            missing, foreign = _missing_migrations(connection)
    except psycopg.errors.InsufficientPrivilege:
        return skip("the user of the url may not read which migrations are applied")
    except psycopg.Error:
        return skip("Postgres cannot be asked: see `postgres`")
    if foreign:
        return problem(
            f"another commit of Heeler made this database: {foreign[0]} is not the migration of"
            " this one",
            "git checkout <the commit that made it>",
        )
    if missing:
        return problem(f"migrations are missing: {', '.join(missing)}", examined.migrate)
    return ok(f"the schemas of {len(names())} services are up to date")


def _missing_migrations(connection: Connection) -> tuple[list[str], list[str]]:
    """The services whose schemas lack migrations, with the first; and migrations that differ."""
    missing, foreign = [], []
    for service in names():
        files = (*STORE_FILES, *sorted(migration_files(service)))
        row = connection.execute("select to_regclass(%s)", [f"{service}.migrations"]).fetchone()
        known = applied_checksums(connection, service) if row and row[0] else {}
        absent = [file.name for file in files if file.name not in known]
        if absent:
            missing.append(f"{service} ({absent[0]})")
        foreign += [
            f"{service} {file.name}"
            for file in files
            if file.name in known and known[file.name] != checksum_of(file.read_text())
        ]
    return missing, foreign


def _unreachable(examined: Examined, url: str, failed: psycopg.Error) -> Finding:
    named = examined.named_database
    if not isinstance(failed, psycopg.OperationalError):
        return problem(
            f"{named} is no address of Postgres (it is not shown, since it may hold a password)",
            f"export {named}=<url of a Postgres that runs>",
        )
    where, said = _shown(url), str(failed)
    if "password authentication failed" in said or "no password supplied" in said:
        text = f"{where} does not accept the user or the password"
        wanted = "the same url with the password of its user"
    elif "does not exist" in said:
        text, wanted = f"{where}: {_line(failed)}", "url of the database"
    else:
        text, wanted = f"{where} does not answer: {_line(failed)}", "url of a Postgres that runs"
    return problem(text, f"export {named}=<{wanted}>" if named else examined.restart)


def _shown(url: str) -> str:
    if not urlsplit(url).hostname:
        return "Postgres"
    return f"Postgres at {without_password(url)[0]}"


def _line(failed: Exception) -> str:
    """The last line of what psycopg says of a server, which has the reason and no password."""
    lines = [line.strip() for line in str(failed).splitlines() if line.strip()]
    return (lines or [type(failed).__name__])[-1].rpartition("failed: ")[2]


def _version(connection: Connection) -> Finding:
    version = connection.info.server_version
    if version < VERSION_LEAST * 10_000:
        return problem(
            f"Postgres {version // 10_000} is too old: {VERSION_LEAST} or newer is needed",
            f"pg_upgrade <to Postgres {VERSION_LEAST} or newer>",
        )
    shown = connection.info.parameter_status("server_version") or str(version)
    return ok(f"Postgres {shown} answers")


def _vector(examined: Examined, connection: Connection) -> Finding:
    row = connection.execute(
        "select (select extversion from pg_extension where extname = 'vector'),"
        " (select default_version from pg_available_extensions where name = 'vector')"
    ).fetchone()
    installed, available = row or (None, None)
    if installed:
        return ok(f"pgvector {installed}")
    if not available:
        major = connection.info.server_version // 10_000
        return problem(
            "this Postgres has no pgvector, in which passages are found",
            f"sudo apt-get install postgresql-{major}-pgvector",
        )
    return problem("pgvector is not installed in this database", examined.migrate)


def _connections(connection: Connection) -> Finding:
    row = connection.execute(
        "select current_setting('max_connections')::int, count(*) from pg_stat_activity"
        " where backend_type = 'client backend'"
    ).fetchone()
    most, used = row or (0, 0)
    text, left = f"{used} of {most} connections are used", most - used
    more = f'psql "<url of a superuser>" -c "alter system set max_connections = {most * 2}"'
    if left < CONNECTIONS_LEFT_MIN:
        return problem(f"Postgres has no connections left: {text}", more)
    return warning(text, more) if left < CONNECTIONS_LEFT_LOW else ok(text)


def _size(connection: Connection) -> Finding:
    row = connection.execute("select pg_database_size(current_database())").fetchone()
    size = row[0] if row else 0
    text = f"the database has {size / (1 << 30):.1f} GiB"
    if size > DATABASE_BYTES_LARGE:
        return warning(f"{text}: look for what grows", "make psql ARGS='-c \"\\dt+ *.*\"'")
    return ok(text)
