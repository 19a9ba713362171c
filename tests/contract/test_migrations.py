"""Migrations are applied once; a database that others have made is refused, and left as it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from deploy.embedded.settings import CHECKOUT
from libs.contracts.service_registry import names
from libs.eventstore.migrations import STORE_FILES, EarlierHome, migrate
from tests.servers import PostgresServer

PASSWORD = "secret"
BASELINE = "-- Accounts.\ncreate table {schema}.accounts (id text primary key);\n"
NEXT = "alter table {schema}.accounts add column cents int;"
COLUMNS = """
select column_name from information_schema.columns
where table_schema = 'ledger' and table_name = 'accounts' order by 1"""


@pytest.fixture
def connection(
    postgres_server: PostgresServer, request: pytest.FixtureRequest
) -> Iterator[psycopg.Connection[Any]]:
    url = postgres_server.create_database(f"migrated_{abs(hash(request.node.name))}")
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def migrated(connection: psycopg.Connection[Any], tmp_path: Path) -> Callable[..., list[str]]:
    """Migrates the schema `ledger` by these texts, the first of which is 0001.sql."""

    def migrate_by(*texts: str) -> list[str]:
        files = [tmp_path / f"{number:04}.sql" for number in range(1, len(texts) + 1)]
        for file, text in zip(files, texts, strict=True):
            file.write_text(text)
        return migrate(connection, "ledger", PASSWORD, files)

    return migrate_by


def columns(connection: psycopg.Connection[Any]) -> list[str]:
    return [name for (name,) in connection.execute(COLUMNS).fetchall()]


def test_each_migration_is_applied_once_and_those_of_the_store_first(
    connection: psycopg.Connection[Any], migrated: Callable[..., list[str]]
) -> None:
    assert migrated(BASELINE) == [*(file.name for file in STORE_FILES), "0001.sql"]
    assert migrated(BASELINE, NEXT) == ["0002.sql"]
    assert migrated(BASELINE, NEXT) == []
    assert columns(connection) == ["cents", "id"]


def test_a_migration_that_was_applied_in_another_form_is_refused_and_nothing_is_changed(
    connection: psycopg.Connection[Any], migrated: Callable[..., list[str]]
) -> None:
    migrated(BASELINE)
    edited = BASELINE.replace("key", "key, name text")
    with pytest.raises(EarlierHome, match=r"ledger .* 0001\.sql is not the one of this commit"):
        migrated(edited, NEXT)
    assert columns(connection) == ["id"]


def test_the_comments_of_an_applied_migration_may_be_edited(
    migrated: Callable[..., list[str]],
) -> None:
    migrated(BASELINE)
    assert migrated(BASELINE.replace("-- Accounts.", "-- Accounts of  people,\n-- by id.\n")) == []


def test_a_migration_that_only_a_newer_version_knows_is_left_alone(
    connection: psycopg.Connection[Any], migrated: Callable[..., list[str]]
) -> None:
    migrated(BASELINE, NEXT)
    assert migrated(BASELINE) == []
    assert columns(connection) == ["cents", "id"]


def test_a_database_of_a_commit_before_the_baselines_is_refused_in_one_sentence(
    postgres_server: PostgresServer,
) -> None:
    url = postgres_server.create_database("before_the_baselines")
    environment = {
        **os.environ,
        "HEELER_ADMIN_DATABASE_URL": url,
        "HEELER_SERVICE_PASSWORDS": json.dumps(dict.fromkeys(names(), PASSWORD)),
    }
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create schema memory")
        connection.execute("create table memory.migrations (name text primary key)")
        connection.execute("insert into memory.migrations values ('0001_blocks.sql')")
        done = subprocess.run(
            [sys.executable, "-m", "deploy.migrate"],
            cwd=CHECKOUT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        made = connection.execute(
            "select table_schema, table_name from information_schema.tables"
            " where table_schema in ('memory', 'tools', 'agent', 'api')"
        ).fetchall()
    assert done.returncode == 1
    assert done.stderr == (
        "The schema memory of this database was made by another commit of Heeler: its migration"
        " 0001_blocks.sql is not the one of this commit. Start it with that commit, where"
        " `make dump` keeps a copy, or delete the data with `make wipe`.\n"
    )
    assert made == [("memory", "migrations")]
