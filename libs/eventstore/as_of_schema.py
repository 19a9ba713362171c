"""The schema `<service>_as_of`: rows of the past, and the service's published views over them.

It is a cache, made from what the schema of the service looks like now, and made again whenever that
has changed. Each table of a moment has the columns of the service's own and the key of its moment;
a view of the table's own name shows the rows of the moment that the session names, and over those
views stand copies of all that the service publishes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

import psycopg

from libs.contracts.service_registry import database_role
from libs.eventstore.migrations import MIGRATION_LOCK, relations

# Unlogged: a crash of Postgres empties them all, `moments` too. Keys are random, so that none comes
# twice: a process that still holds one from before the crash finds and writes nothing.
MOMENTS = """
create unlogged table {past}.moments (
    as_of     bigint primary key
        default ('x' || left(replace(gen_random_uuid()::text, '-', ''), 15))::bit(60)::bigint,
    org       text not null,
    agent_id  text not null,
    cut       bigint not null,
    selection text not null,
    state     text not null default 'filling' check (state in ('filling', 'complete', 'abandoned')),
    events    bigint not null default 0,
    bytes     bigint not null default 0,
    begun_at  timestamptz not null default now(),
    seen_at   timestamptz not null default now(),
    used_at   timestamptz not null default now()
);
create unique index moments_key on {past}.moments (agent_id, org, cut, selection)
    where state <> 'abandoned';
create index moments_org on {past}.moments (org, used_at);
"""

GRANTS = """
grant usage on schema {past} to {role}, heeler_reader;
grant select, insert, update, delete on all tables in schema {past} to {role};
"""

COLUMNS = """
select attname, attgenerated <> '' from pg_attribute
where attrelid = %s::regclass and attnum > 0 and not attisdropped order by attnum"""

# Those by which an agent's rows are found. What a list of an organisation or a search by meaning
# needs is left out.
INDEXES = """
select pg_get_indexdef(i.indexrelid) from pg_index i
join pg_class c on c.oid = i.indexrelid join pg_am m on m.oid = c.relam
where i.indrelid = %s::regclass and m.amname = 'btree'
  and i.indnatts = i.indnkeyatts
  and (i.indkey[0] = 0 or (select attname from pg_attribute
       where attrelid = i.indrelid and attnum = i.indkey[0]) <> 'org')
order by c.relname"""

VIEWS = """
select c.relname, pg_get_viewdef(c.oid), array(
    select grantee::regrole::text from aclexplode(c.relacl)
    where grantee <> c.relowner and privilege_type = 'SELECT')
from pg_class c
where c.relnamespace = to_regnamespace(%s) and c.relkind = 'v' order by c.oid"""

MADE_FROM = "select obj_description(to_regnamespace(%s), 'pg_namespace')"


def create_as_of_schema(
    connection: psycopg.Connection[Any], service: str, tables: Iterable[str]
) -> bool:
    """Make the schema `<service>_as_of`, if it is not there as it should be; returns whether it was
    made. Safe to run again, from several processes, and while Heeler serves."""
    past = f"{service}_as_of"
    with connection.transaction():
        connection.execute("select pg_advisory_xact_lock(%s)", [MIGRATION_LOCK])
        statements = [*definition(connection, service, [*tables])]
        digest = hashlib.sha256("\n".join(statements).encode()).hexdigest()
        expected = {name for text in statements for name in made_by(text, past)}
        row = connection.execute(MADE_FROM, [past]).fetchone()
        if row == (digest,) and expected == set(relations(connection, past)):
            return False
        connection.execute(f"drop schema if exists {past} cascade".encode())
        connection.execute(f"create schema {past}".encode())
        for text in statements:
            connection.execute(text.encode())
        connection.execute(f"comment on schema {past} is '{digest}'".encode())
    return True


def definition(
    connection: psycopg.Connection[Any], service: str, tables: list[str]
) -> Iterator[str]:
    """The statements that make the schema."""
    past = f"{service}_as_of"
    yield MOMENTS.format(past=past)
    for table in tables:
        yield from rows_of(connection, service, table)
    for table in tables:
        yield view_of_rows(connection, service, table)
    yield GRANTS.format(past=past, role=database_role(service))
    views = connection.execute(VIEWS, [service]).fetchall()
    names = [*tables, *(name for name, _, _ in views)]
    copied = re.compile(rf"\b{service}\.({'|'.join(names)})\b")
    for name, text, grantees in views:
        yield f"create view {past}.{name} as {copied.sub(rf'{past}.\1', text)}"
        for role in grantees:
            yield f"grant select on {past}.{name} to {role}"


def rows_of(connection: psycopg.Connection[Any], service: str, table: str) -> Iterator[str]:
    """The statements that make the table of a read model's rows of the past, with its indexes."""
    past, live = f"{service}_as_of", f"{service}.{table}"
    yield (
        f"create unlogged table {past}.{table}_rows"
        f" (as_of bigint not null, like {live} including defaults including storage)"
    )
    for name, is_generated in connection.execute(COLUMNS, [live]).fetchall():
        if is_generated:
            yield f"alter table {past}.{table}_rows drop column {name}"
    for (text,) in connection.execute(INDEXES, [live]).fetchall():
        made, _, columns = text.partition(" USING btree (")
        index = re.sub(r" INDEX (\w+) ON .*", rf" INDEX \1_past ON {past}.{table}_rows", made)
        yield f"{index} USING btree (as_of, {columns}"


def view_of_rows(connection: psycopg.Connection[Any], service: str, table: str) -> str:
    """The statement that makes the view of the rows of the moment that the session names."""
    past = f"{service}_as_of"
    columns = connection.execute(COLUMNS, [f"{service}.{table}"]).fetchall()
    shown = ", ".join(name for name, is_generated in columns if not is_generated)
    named = f"nullif(current_setting('heeler.{past}', true), '')::bigint"
    return (
        f"create view {past}.{table} as select {shown} from {past}.{table}_rows"
        f" where as_of = {named}"
    )


def made_by(text: str, past: str) -> list[str]:
    """The tables and views that a statement makes."""
    return re.findall(rf"create (?:unlogged table|view) {past}\.(\w+)", text)
